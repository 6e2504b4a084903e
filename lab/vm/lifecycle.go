// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"plumbline.dev/plumbline/lab/daemon"
	"plumbline.dev/plumbline/lab/vm/guest"
	"plumbline.dev/plumbline/lab/vm/qemu"
)

// Running says whether the machine's QEMU runs.
func (v *VM) Running() (bool, error) {
	id, err := daemon.Read(v.path(pidFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return id.Alive()
}

// Stop ends the machine by QMP's quit, and kills QEMU where that does not help. A
// machine that does not run is no error. Files stay.
func (v *VM) Stop(ctx context.Context) error {
	id, err := daemon.Read(v.path(pidFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	// daemon.Stop sees whether it ended.
	if conn, err := v.dial(ctx, qmpSocket); err == nil {
		_ = qemu.Quit(ctx, conn)
	}
	if err := daemon.Stop(ctx, id, grace); err != nil {
		return fmt.Errorf("stop virtual machine: %w", err)
	}
	if err := os.Remove(v.path(pidFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("stop virtual machine: %w", err)
	}
	return nil
}

// Wait returns when the guest has said mark (guest.Up or guest.Started) on its
// console. It fails when the guest gives up, QEMU ends, or ctx does.
func (v *VM) Wait(ctx context.Context, mark string) error {
	for {
		said, failed := v.consoleShows(mark)
		if said {
			return nil
		}
		if failed != "" {
			return fmt.Errorf("guest failed: %s (see %s)", failed, v.Console())
		}
		running, err := v.Running()
		if err != nil {
			return fmt.Errorf("wait for %q from the guest: %w", mark, err)
		}
		if !running {
			return v.ended(mark)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %q from the guest: %w (see %s)", mark, ctx.Err(), v.Console())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// ErrEnded says that QEMU went away while the guest should have run: it
// crashed, or the guest's kernel did.
var ErrEnded = errors.New("QEMU ended")

// ended says why QEMU ended, from the end of its log and of the guest's console.
func (v *VM) ended(mark string) error {
	time.Sleep(exitRecorded) // how QEMU ended is written after it has
	if _, failed := v.consoleShows(mark); failed != "" {
		return fmt.Errorf("wait for %q: %w: guest failed: %s (see %s)", mark, ErrEnded, failed, v.Console())
	}
	return fmt.Errorf("wait for %q: %w\n%s\nthe end of the guest's console:\n%s", mark, ErrEnded,
		tail(v.path(qemuLog)), tail(v.Console()))
}

// exitRecorded is how long daemon.Start may take to record how a process ended.
const exitRecorded = 200 * time.Millisecond

// tail returns the end of a log.
func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	const enough = 1200
	return strings.TrimSpace(string(text[max(0, len(text)-enough):]))
}

// consoleShows looks for the mark, and for a failure, on the console.
func (v *VM) consoleShows(mark string) (said bool, failed string) {
	text, err := os.ReadFile(v.Console())
	if err != nil {
		return false, ""
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		_, own, ok := strings.Cut(line, guest.Mark)
		switch {
		case !ok:
			if strings.Contains(line, "Kernel panic") {
				failed = line
			}
		case strings.HasSuffix(own, mark):
			said = true
		default:
			if _, why, ok := strings.Cut(own, guest.Failed); ok && failed == "" {
				failed = why
			}
		}
	}
	return said, failed
}
