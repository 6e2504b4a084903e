// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// fakeHelper keeps what was published last.
type fakeHelper struct {
	writes int
	last   []resourceslice.Slice
	err    error
}

func (f *fakeHelper) PublishResources(_ context.Context, r resourceslice.DriverResources) error {
	if f.err != nil {
		return f.err
	}
	f.writes++
	f.last = r.Pools["node1"].Slices
	return nil
}

func (f *fakeHelper) Stop() {}

func netPublisher(f *fakeHelper) *Publisher {
	return &Publisher{Driver: slicecodec.DriverNet, Pool: "node1", Helper: f}
}

// fakeCounter remembers the last figures.
type fakeCounter struct{ calls, devices, unhealthy int }

func (c *fakeCounter) Published(_ string, devices, unhealthy int) {
	c.calls, c.devices, c.unhealthy = c.calls+1, devices, unhealthy
}

func TestPublishesChangesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := &fakeHelper{}, &fakeCounter{}
		p := netPublisher(f)
		p.Counter = c
		m := machineWith(t, nic("eth0", 1, "up"), nic("eth1", 2, "up"))
		for range 3 {
			if wait := All(t.Context(), []*Publisher{p}, m, nil); wait != 0 {
				t.Errorf("something waits %v", wait)
			}
		}
		moved := machineWith(t, nic("eth0", 11, "up"), nic("eth1", 12, "up"))
		All(t.Context(), []*Publisher{p}, moved, nil)
		if f.writes != 1 {
			t.Fatalf("%d writes, want 1: an ifindex is not published", f.writes)
		}
		time.Sleep(defaultWriteInterval)
		faults := map[string][]model.Fault{"eth1": {{Kind: model.FaultCarrier, Since: time.Now()}}}
		All(t.Context(), []*Publisher{p}, m, faults)
		if got := f.last[0].Devices[1].Taints; f.writes != 2 || len(got) != 1 || got[0].Effect != resourceapi.DeviceTaintEffectNoSchedule {
			t.Errorf("%d writes, taints %v, want a second one with NoSchedule", f.writes, got)
		}
		if *c != (fakeCounter{2, 2, 1}) {
			t.Errorf("counted %+v, want 2 writes, the last of 2 devices of which 1 is unhealthy", *c)
		}
	})
}

// The counter of a NIC that is offered both ways is in a slice after those of devices.
func TestPublishesCounters(t *testing.T) {
	f := &fakeHelper{}
	both := nic("eth0", 1, "up")
	both.Share = &model.Share{Type: model.ShareMacvlan, Slots: 4, AlsoExclusive: true}
	All(t.Context(), []*Publisher{netPublisher(f)}, machineWith(t, both, nic("eth1", 2, "up")), nil)
	if len(f.last) != 2 || len(f.last[0].Devices) != 3 || len(f.last[0].SharedCounters) > 0 || len(f.last[1].Devices) > 0 ||
		len(f.last[1].SharedCounters) != 1 || f.last[1].SharedCounters[0].Name != "eth0" {
		t.Errorf("slices %+v, want three devices, then the counter of eth0", f.last)
	}
}

// A change right after the first write is written at once, the next has to wait, and
// a quiet time makes up for it.
func TestFirstChangeGoesOutAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeHelper{}
		p := netPublisher(f)
		states := []string{"up", "down"}
		show := func(i int) time.Duration {
			return All(t.Context(), []*Publisher{p}, machineWith(t, nic("eth0", 1, states[i%2])), nil)
		}
		show(0)
		if wait := show(1); wait != 0 || f.writes != 2 {
			t.Errorf("the first change waits %v, %d writes; want it written at once", wait, f.writes)
		}
		wait := show(0)
		if wait <= 0 || wait > defaultWriteInterval || f.writes != 2 {
			t.Errorf("the second change waits %v, %d writes; want it to wait at most %v", wait, f.writes, defaultWriteInterval)
		}
		time.Sleep(wait)
		if again := show(0); again != 0 || f.writes != 3 {
			t.Errorf("after its wait it waits %v, %d writes; want it written", again, f.writes)
		}
		time.Sleep(time.Minute)
		for i := range burst {
			if wait := show(i + 1); wait != 0 {
				t.Errorf("after a minute of rest change %d waits %v, want it written", i, wait)
			}
		}
	})
}

// A failure is tried again, and none of it lost.
func TestPublishTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeHelper{err: errors.New("away")}
		p := netPublisher(f)
		m := machineWith(t, nic("eth0", 1, "up"))
		if wait := All(t.Context(), []*Publisher{p}, m, nil); wait != defaultWriteInterval {
			t.Errorf("to come again in %v, want %v", wait, defaultWriteInterval)
		}
		f.err = nil
		if All(t.Context(), []*Publisher{p}, m, nil); f.writes != 1 {
			t.Errorf("%d writes, want 1", f.writes)
		}
	})
}

// A carrier that flaps ten times a second for a minute writes at most once in
// every five seconds, and what it ended with is published.
func TestFlappingCarrierIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeHelper{}
		scans := make(chan inventory.Snapshot)
		l := &Loop{
			MergedMachine: &MergedMachine{}, Publishers: []*Publisher{netPublisher(f)}, Scans: scans,
			Held: func(context.Context) ([]model.NIC, error) { return nil, nil },
		}
		if err := l.Take(t.Context(), inventory.Snapshot{Machine: machineWith(t, nic("eth0", 1, "up"))}); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.Run(t.Context())
		}()
		const seconds = 60
		for i := range seconds * 10 {
			scans <- inventory.Snapshot{Machine: machineWith(t, nic("eth0", 1, []string{"down", "up"}[i%2]))}
			time.Sleep(100 * time.Millisecond)
		}
		scans <- inventory.Snapshot{Machine: machineWith(t, nic("eth0", 1, "dormant"))}
		time.Sleep(2 * defaultWriteInterval)
		synctest.Wait()
		if most := seconds/int(defaultWriteInterval.Seconds()) + 3; f.writes > most {
			t.Errorf("%d flaps: %d writes, want at most %d", seconds*10, f.writes, most)
		}
		if got := *f.last[0].Devices[0].Attributes["dra.net/state"].StringValue; got != "dormant" {
			t.Errorf("published state %q at the end, want dormant", got)
		}
		t.Logf("%d flaps in %d s: %d writes", seconds*10, seconds, f.writes)
		close(scans)
		<-done
	})
}

// A driver that is registered late is published then.
func TestPublisherThatComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scans, registered := make(chan inventory.Snapshot), make(chan *Publisher)
		l := &Loop{
			MergedMachine: &MergedMachine{}, Registered: registered, Scans: scans,
			Held: func(context.Context) ([]model.NIC, error) { return nil, nil },
		}
		if err := l.Take(t.Context(), inventory.Snapshot{Machine: machineWith(t, nic("eth0", 1, "up"))}); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() { defer close(done); l.Run(t.Context()) }()
		f := &fakeHelper{}
		registered <- netPublisher(f)
		synctest.Wait()
		if f.writes != 1 {
			t.Errorf("%d writes, want 1", f.writes)
		}
		close(scans)
		<-done
		if len(l.Publishers) != 1 {
			t.Errorf("%d publishers to stop, want 1", len(l.Publishers))
		}
	})
}

// What the host's checks say of NICs is written when it changes, of those that pods
// hold, too, and not when it is said again.
func TestHostChecksReachSlices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scans, checked := make(chan inventory.Snapshot), make(chan struct{})
		var says *bool
		l := &Loop{
			MergedMachine: &MergedMachine{Describe: func(m *model.Machine) *model.Machine {
				described := *m
				described.NICs = slices.Clone(m.NICs)
				for i := range described.NICs {
					described.NICs[i].GPUDirect = says
				}
				return &described
			}},
			HostChecked: checked, Scans: scans,
			Held: func(context.Context) ([]model.NIC, error) { return []model.NIC{nic("eth1", 2, "up")}, nil },
		}
		f := &fakeHelper{}
		l.Publishers = []*Publisher{netPublisher(f)}
		if err := l.Take(t.Context(), inventory.Snapshot{Machine: machineWith(t, nic("eth0", 1, "up"))}); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() { defer close(done); l.Run(t.Context()) }()
		for i, c := range []struct {
			says   *bool
			writes int
		}{{nil, 1}, {new(true), 2}, {new(true), 2}, {new(false), 3}, {nil, 4}} {
			time.Sleep(time.Minute)
			says = c.says
			checked <- struct{}{}
			synctest.Wait()
			for _, d := range f.last[0].Devices {
				got := d.Attributes["plumbline.dev/gpuDirect"].BoolValue
				if f.writes != c.writes || (got == nil) != (c.says == nil) || got != nil && *got != *c.says {
					t.Errorf("step %d, %s: %d writes, gpuDirect %v; want %d and %v", i, d.Name, f.writes, got, c.writes, c.says)
				}
			}
		}
		close(scans)
		<-done
	})
}

// A driver that is withdrawn has its slices deleted, once, and leaves the loop alone.
func TestWithdrawnDriverHasNoSlices(t *testing.T) {
	f := &fakeHelper{}
	m := machineWith(t, nic("eth0", 1, "up"))
	l := &Loop{Publishers: []*Publisher{netPublisher(f), {Driver: slicecodec.DriverCPU, Pool: "node1", Helper: &fakeHelper{}}}}
	All(t.Context(), l.Publishers, m, nil)
	if len(f.last) != 1 {
		t.Fatalf("%d slices, want 1", len(f.last))
	}
	withdrawn := netPublisher(f)
	withdrawn.Withdrawn = true
	l.replace(withdrawn)
	for range 3 {
		All(t.Context(), l.Publishers, m, nil)
	}
	if len(l.Publishers) != 2 || f.writes != 2 || len(f.last) != 0 {
		t.Errorf("%d drivers, %d writes, slices %v; want 2 drivers, 2 writes, none", len(l.Publishers), f.writes, f.last)
	}
	l.replace(&Publisher{Driver: slicecodec.DriverNet})
	if len(l.Publishers) != 1 || l.Publishers[0].Driver != slicecodec.DriverCPU {
		t.Errorf("%v is left, want the driver of CPUs", l.Publishers)
	}
}
