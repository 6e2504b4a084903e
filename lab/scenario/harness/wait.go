// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// ErrTimeout says that a condition did not come true in time.
var ErrTimeout = errors.New("not in time")

// WaitFor polls a condition, at once and then every interval, until it is true or
// fails. It returns ErrTimeout when the limit is over, and the context's error when
// that ends.
func WaitFor(ctx context.Context, every, limit time.Duration, condition func() (bool, error)) error {
	var failed error
	err := wait.PollUntilContextTimeout(ctx, every, limit, true, func(context.Context) (done bool, err error) {
		done, failed = condition()
		return done, failed
	})
	switch {
	case failed != nil:
		return failed
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return ErrTimeout
	}
	return nil
}

// Sleep waits for so long, or until the context ends, whose error it returns.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
