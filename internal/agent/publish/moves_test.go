// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/sysfs"
	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/model"
)

// sysOf opens /sys as a network namespace shows it.
func sysOf(t testing.TB, ns *hosttest.Namespace) *sysfs.Dir {
	t.Helper()
	dir, err := sysfs.Open(ns.Sys(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	return dir
}

// outside is a path of a namespace for another process.
func outside(ns *hosttest.Namespace) string {
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), ns.Fd())
}

// records are the NICs that pods hold.
type records struct {
	mu   sync.Mutex
	held []model.NIC
}

func (r *records) set(held ...model.NIC) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = held
}

func (r *records) list(context.Context) ([]model.NIC, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held, nil
}

// Fifty times a link is given to another namespace, renamed and changed there,
// and brought back as it was, with a live inventory looking on: the first write
// of the slices stays the only one.
func TestMovesWriteNoSlices(t *testing.T) {
	const cycles = 50
	host, pod := hosttest.NewNamespace(t), hosttest.NewNamespace(t)
	host.Run(t, `
		ip link set lo up
		ip link add nic0 type veth peer name far0
		ip link set far0 up
		ip link set nic0 up
		ip address add 192.0.2.1/24 dev nic0
		ip link add nic1 type veth peer name far1`)
	links, err := inventory.OpenNetlink(host.Fd(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer links.Close()
	ctx, cancel := context.WithCancel(t.Context())
	scans := inventory.Watch(ctx, inventory.Sources{Sys: sysOf(t, host), Links: links}, inventory.Options{
		Virtual: func(i model.Interface) bool { return strings.HasPrefix(i.Name, "nic") },
	}, time.Hour)
	var looks atomic.Int64
	f, taken, changed := &fakeHelper{}, &records{}, make(chan struct{}, 1)
	at := netPublisher(f)
	at.writeInterval = time.Nanosecond // whatever is new is written
	l := &Loop{
		MergedMachine: &MergedMachine{}, Publishers: []*Publisher{at}, Scans: scans,
		Held: taken.list, HeldChanged: changed, Taken: func() { looks.Add(1) },
	}
	if err := l.Take(ctx, <-scans); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.Run(ctx)
	}()
	for i := range cycles {
		n := find(l.MergedMachine.Current().NICs, model.NIC{Interface: &model.Interface{Name: "nic0"}})
		if n == nil {
			t.Fatalf("cycle %d: nic0 is not published", i)
		}
		taken.set(*n)
		changed <- struct{}{}
		host.Run(t, fmt.Sprintf("ip link set nic0 netns %s down", outside(pod)))
		pod.Run(t, fmt.Sprintf(`
			ip link set nic0 name eth0 mtu 1400
			ip address add 198.51.100.1/24 dev eth0
			ip link set eth0 up
			ip link set eth0 down mtu 1500 name nic0
			ip link set nic0 netns %s`, outside(host)))
		if i%2 == 0 { // sometimes a look falls between
			time.Sleep(60 * time.Millisecond)
		}
		host.Run(t, `
			ip link set nic0 up
			ip address add 192.0.2.1/24 dev nic0`)
		taken.set()
		changed <- struct{}{}
	}
	time.Sleep(200 * time.Millisecond)
	cancel()
	<-done
	if looks.Load() < cycles {
		t.Errorf("the loop took %d scans in %d cycles, want one for each at least", looks.Load(), cycles)
	}
	if f.writes != 1 {
		t.Errorf("%d cycles caused %d writes after the first, want none", cycles, f.writes-1)
	}
	t.Logf("%d prepare and unprepare cycles, %d scans: %d ResourceSlice writes after the first", cycles, looks.Load(), f.writes-1)
}
