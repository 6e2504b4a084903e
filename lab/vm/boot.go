// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"plumbline.dev/plumbline/lab/vm/guest"
)

const (
	// boots is how often a machine is started whose guest does not come up.
	// Emulating many CPUs at once, QEMU 7.2 loses one in some dozens: it crashes,
	// or a CPU traps for ever (see patchEarly in lab/vm/guest/boot for how).
	// Nothing has run in it yet.
	boots = 3
	// silence is how long a guest that is not up may say nothing at its first
	// start; later ones get more, since a busy host is slow every time. Its
	// longest silence on two idle processors is five seconds.
	silence = time.Minute
)

// ErrHung says that the guest fell silent before it was up.
var ErrHung = errors.New("the guest hangs")

// Boot starts the machine and returns when its guest is up, and, as Start, what
// differs from the real machine. One that ends or hangs before is started again:
// note hears why. When Boot fails, nothing runs.
func Boot(ctx context.Context, c Config, note func(error)) (v *VM, deviations []string, err error) {
	for try := 1; ; try++ {
		if v, deviations, err = bootOnce(ctx, c, time.Duration(try)*silence); err == nil {
			return v, deviations, nil
		}
		if try == boots || !errors.Is(err, ErrEnded) && !errors.Is(err, ErrHung) {
			return nil, nil, err
		}
		note(err)
	}
}

func bootOnce(ctx context.Context, c Config, quiet time.Duration) (*VM, []string, error) {
	v, deviations, err := Start(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	if err := v.up(ctx, quiet); err != nil {
		return nil, nil, errors.Join(err, v.Stop(context.WithoutCancel(ctx)))
	}
	return v, deviations, nil
}

// up waits for the guest, and gives up when it says nothing for that long.
func (v *VM) up(ctx context.Context, quiet time.Duration) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		if v.waitForSilence(ctx, quiet) {
			cancel(ErrHung)
		}
	}()
	err := v.Wait(ctx, guest.Up)
	if err != nil && errors.Is(context.Cause(ctx), ErrHung) {
		return fmt.Errorf("%w: it printed nothing for %s; the end of its console:\n%s", ErrHung, quiet, tail(v.Console()))
	}
	return err
}

// waitForSilence returns true when nothing came to the console for that long, and false
// when ctx ends before.
func (v *VM) waitForSilence(ctx context.Context, quiet time.Duration) bool {
	size, last := int64(0), time.Now()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(min(time.Second, quiet/4)):
		}
		if info, err := os.Stat(v.Console()); err == nil && info.Size() != size {
			size, last = info.Size(), time.Now()
		}
		if time.Since(last) > quiet {
			return true
		}
	}
}
