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

	"plumbline.dev/plumbline/lab/proc"
	"plumbline.dev/plumbline/lab/vm/guest"
	"plumbline.dev/plumbline/lab/vm/qemu"
)

// Running says whether the machine's QEMU runs.
func (v *VM) Running() (bool, error) {
	id, err := proc.Read(v.path(pidFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return id.Alive()
}

// Stop ends the machine: it asks QEMU, and kills it when it does not listen. A
// machine that does not run is no error. Files stay.
func (v *VM) Stop(ctx context.Context) error {
	id, err := proc.Read(v.path(pidFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	// Whether it listened shows below.
	if conn, err := v.dial(ctx, qmpSocket); err == nil {
		_ = qemu.Quit(ctx, conn)
	}
	if err := proc.Stop(ctx, id, grace); err != nil {
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
		said, failed := v.heard(mark)
		if said {
			return nil
		}
		if failed != "" {
			return fmt.Errorf("guest failed: %s (see %s)", failed, v.Console())
		}
		if running, err := v.Running(); err != nil || !running {
			return errors.Join(fmt.Errorf("wait for %q: QEMU ended: %s (see also %s)", mark, v.lastWords(), v.Console()), err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %q from the guest: %w (see %s)", mark, ctx.Err(), v.Console())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// lastWords is the end of what QEMU itself printed.
func (v *VM) lastWords() string {
	text, err := os.ReadFile(v.path(qemuLog))
	if err != nil {
		return err.Error()
	}
	const enough = 600
	return strings.TrimSpace(string(text[max(0, len(text)-enough):]))
}

// heard looks for the mark, and for a failure, on the console.
func (v *VM) heard(mark string) (said bool, failed string) {
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
