// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"plumbline.dev/plumbline/internal/host/hosttest"
)

// within fails the test where fn does not return, ends whom it waits for, and
// waits for it.
func within(t *testing.T, silent *hosttest.Silent, fn func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); fn() }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Error("the read does not return")
		silent.End()
		<-done
	}
}

// What a pod mounts below its /dev is not entered unless it is the kernel's own,
// and a FIFO there is not opened; device files beside them are found.
func TestSilentMountBelowDev(t *testing.T) {
	silent := hosttest.NewSilent(t, "/dev/silent")
	r := realKernel(t)
	within(t, silent, func() {
		v := viewPod(r.options, []int{silent.PID}, nil)[0]
		want := []deviceFile{{path: "/dev/plain/deeper/device", number: "10:229"}}
		if v.devicesErr != nil || !slices.Equal(v.devices, want) {
			t.Errorf("got %v, %v; want %v", v.devices, v.devicesErr, want)
		}
	})
}

// A mount point below /dev in which the kernel answers is entered, as /dev/infiniband
// of the host's is that a pod mounted.
func TestMountsOfTheKernelBelowDev(t *testing.T) {
	r := realKernel(t)
	pid := child(t, `mount -t tmpfs tmpfs /dev; mkdir /dev/bound; touch /dev/file
		mount -t tmpfs tmpfs /dev/bound; mknod /dev/bound/device c 10 229; mount --bind /dev/bound/device /dev/file`)
	v := viewPod(r.options, []int{pid}, nil)[0]
	want := []deviceFile{{path: "/dev/bound/device", number: "10:229"}, {path: "/dev/file", number: "10:229"}}
	if v.devicesErr != nil || !slices.Equal(v.devices, want) {
		t.Errorf("got %v, %v; want %v", v.devices, v.devicesErr, want)
	}
}

// A file system that does not answer lies at /dev and at /sys themselves.
func TestSilentDevAndSys(t *testing.T) {
	r := realKernel(t)
	for _, at := range []string{"/dev", "/sys"} {
		silent := hosttest.NewSilent(t, at)
		within(t, silent, func() {
			v := viewPod(r.options, []int{silent.PID}, nil)[0]
			err := map[string]error{"/dev": v.devicesErr, "/sys": v.linksErr}[at]
			if want := at + " in the container is not the kernel's: a file system of type fuse is mounted there"; err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

// A read that is not answered is given up and not begun again, others go on, and
// it is begun again once it was answered.
func TestPendingViews(t *testing.T) {
	l := pendingViews{}
	answer := make(chan struct{})
	began := make(chan string, 10)
	read := func(uid string, wait <-chan struct{}) func() []view {
		return func() []view {
			began <- uid
			<-wait
			return []view{{env: nil}}
		}
	}
	now := make(chan struct{})
	close(now)
	// A pass's time is over as soon as those have answered that do.
	pass := func(answering ...string) (silent, good error) {
		l.forget()
		l.start("silent", read("silent", answer))
		l.start("good", read("good", now))
		for _, uid := range answering {
			<-l[uid].done
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, silent = l.await(ctx, "silent")
		_, good = l.await(ctx, "good")
		return silent, good
	}
	for i := range 3 {
		silent, good := pass("good")
		if !errors.Is(silent, ErrUnanswered) || good != nil || l.late() != 1 {
			t.Fatalf("read %d: %v, %v, %d late", i, silent, good, l.late())
		}
	}
	counts := map[string]int{}
	for range 4 {
		counts[<-began]++
	}
	if len(began) > 0 || counts["silent"] != 1 || counts["good"] != 3 {
		t.Errorf("reads begun: %v", counts)
	}
	one := l["silent"]
	close(answer)
	<-one.done
	if silent, good := pass("silent", "good"); silent != nil || good != nil || len(l) != 0 {
		t.Errorf("once it answers: %v, %v, %d under way", silent, good, len(l))
	}
}

// Beyond a number of reads that nobody waits for no more are begun.
func TestPendingViewsAreBounded(t *testing.T) {
	l := pendingViews{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	answer := make(chan struct{})
	defer close(answer)
	for i := range maxUnanswered + 5 {
		uid := fmt.Sprint(i)
		l.start(uid, func() []view { <-answer; return nil })
		if _, err := l.await(ctx, uid); !errors.Is(err, ErrUnanswered) {
			t.Fatal(err)
		}
	}
	if len(l) != maxUnanswered {
		t.Errorf("%d reads under way, want %d", len(l), maxUnanswered)
	}
}
