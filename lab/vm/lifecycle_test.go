// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"plumbline.dev/plumbline/lab/daemon"
	"plumbline.dev/plumbline/lab/vm/guest"
)

func TestHeard(t *testing.T) {
	tests := []struct {
		name, console, failed string
		said                  bool
	}{
		{"nothing yet", "SeaBIOS\r\n", "", false},
		{"said", "\x1bcSeaBIOS\r\nplumblab:   4.20s guest is up\r\n", "", true},
		{"another mark", "plumblab:   4.20s services are started\n", "", false},
		{"failed", "plumblab:   4.20s failed: load kernel module x: no\nplumblab: failed: supervisor ended\n", "load kernel module x: no", false},
		{"panic", "[    1.2] Kernel panic - not syncing: no init\n", "[    1.2] Kernel panic - not syncing: no init", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			v := Open(t.TempDir())
			if err := os.WriteFile(v.Console(), []byte(test.console), 0o644); err != nil {
				t.Fatal(err)
			}
			if said, failed := v.consoleShows(guest.Up); said != test.said || failed != test.failed {
				t.Errorf("said %v, failed %q", said, failed)
			}
		})
	}
}

func TestMachineThatNeverRan(t *testing.T) {
	v := Open(t.TempDir() + "/none")
	if running, err := v.Running(); err != nil || running {
		t.Errorf("running %v, %v", running, err)
	}
	if err := v.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if err := v.Wait(t.Context(), guest.Up); err == nil || !strings.Contains(err.Error(), "QEMU ended") {
		t.Errorf("Wait: %v", err)
	}
}

// TestEarlierGuestIsForgotten: a console of an earlier run does not count.
func TestEarlierGuestIsForgotten(t *testing.T) {
	v := Open(t.TempDir())
	if err := os.WriteFile(v.Console(), []byte(guest.Mark+guest.Up+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := v.prepare(); err != nil {
		t.Fatal(err)
	}
	if said, _ := v.consoleShows(guest.Up); said {
		t.Error("read the mark of the earlier guest")
	}
}

// TestMachineThatEnds: whoever waits learns how QEMU ended and what the guest
// said last, and can tell that from a guest that gave up.
func TestMachineThatEnds(t *testing.T) {
	v := Open(t.TempDir())
	if err := os.WriteFile(v.Console(), []byte("BUG: unable to handle page fault\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := daemon.Start(daemon.Spec{
		Path: "/bin/sh", Args: []string{"-c", "echo cannot go on; kill -ABRT $$"},
		Log: v.path(qemuLog), PIDFile: v.path(pidFile),
	})
	if err != nil {
		t.Fatal(err)
	}
	err = v.Wait(t.Context(), guest.Up)
	if !errors.Is(err, ErrEnded) {
		t.Fatalf("Wait: %v, want ErrEnded", err)
	}
	for _, want := range []string{"cannot go on", "signal: aborted", "BUG: unable to handle page fault"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("Wait: %v, want it to say %q", err, want)
		}
	}
}

// A guest that falls silent before it is up hangs; one that talks is waited for.
func TestSilence(t *testing.T) {
	for name, test := range map[string]struct {
		says string
		hung bool
	}{
		"falls silent": {"exec sleep 60", true},
		"talks":        {"for i in 1 2 3 4 5 6 7 8; do echo still here; sleep 0.2; done; echo '" + guest.Mark + "  9.00s " + guest.Up + "'; exec sleep 60", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := Open(t.TempDir())
			if err := os.WriteFile(v.Console(), []byte(guest.Mark+"  1.00s kernel is up\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := daemon.Start(daemon.Spec{
				Path: "/bin/sh", Args: []string{"-c", "exec >>" + consoleFile + "; " + test.says}, Dir: v.dir,
				Log: v.path(qemuLog), PIDFile: v.path(pidFile),
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := v.Stop(context.Background()); err != nil {
					t.Error(err)
				}
			})
			err = v.up(t.Context(), time.Second)
			if test.hung && (!errors.Is(err, ErrHung) || !strings.Contains(err.Error(), "kernel is up")) {
				t.Errorf("got %v, want that it hangs, and the end of its console", err)
			}
			if !test.hung && err != nil {
				t.Errorf("got %v of a guest that came up", err)
			}
		})
	}
}
