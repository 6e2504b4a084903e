// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"errors"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/netns"
)

func TestDo(t *testing.T) {
	target := hosttest.NewNamespace(t)
	want, own := idOf(t, target.Path()), idOf(t, netns.Self)
	var running sync.WaitGroup
	for range 32 {
		running.Go(func() {
			err := netns.Do(target.Fd(), func() error {
				if unix.Gettid() == unix.Getpid() {
					t.Error("the process's first thread left its namespace")
				}
				if got := idOf(t, "/proc/thread-self/ns/net"); got != want {
					t.Errorf("inside namespace %v, want %v", got, want)
				}
				return os.ErrExist
			})
			if !errors.Is(err, os.ErrExist) {
				t.Errorf("Do = %v, want the function's error", err)
			}
			if got := idOf(t, netns.Self); got != own {
				t.Errorf("the process is in %v meanwhile, want %v", got, own)
			}
		})
	}
	running.Wait()
	// Whatever thread is next, it is home again.
	for range 32 {
		running.Go(func() {
			if got := idOf(t, "/proc/thread-self/ns/net"); got != own {
				t.Errorf("a thread stayed in %v, want %v", got, own)
			}
		})
	}
	running.Wait()
}

func TestDoWithoutNamespace(t *testing.T) {
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	err = netns.Do(int(file.Fd()), func() error {
		t.Error("the function ran")
		return nil
	})
	if !errors.Is(err, unix.EINVAL) {
		t.Errorf("Do = %v, want EINVAL", err)
	}
}

func idOf(t *testing.T, path string) netns.ID {
	t.Helper()
	ns, err := netns.Open(path)
	if err != nil {
		t.Error(err)
		return netns.ID{}
	}
	defer func() { _ = ns.Close() }()
	return ns.ID()
}

// TestDoStays: whoever may not enter namespaces may still open a socket in the
// own one. No capability is given up for it: setns(2) would refuse Current.
func TestDoStays(t *testing.T) {
	err := netns.Do(netns.Current, func() error {
		if got, want := idOf(t, "/proc/thread-self/ns/net"), idOf(t, netns.Self); got != want {
			t.Errorf("in namespace %v, want the process's %v", got, want)
		}
		return os.ErrExist
	})
	if !errors.Is(err, os.ErrExist) {
		t.Errorf("Do = %v, want the function's error", err)
	}
}
