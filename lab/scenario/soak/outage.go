// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"errors"
	"sync"
	"time"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

// outage is a time without API server. Cycles whose faults overlap share one: outages
// one after the other would leave the node no time between them.
type outage struct {
	pause func() (resume func() error, err error)

	mu     sync.Mutex
	shared int
	resume func() error
}

// hold keeps the API server away for at least so long.
func (o *outage) hold(ctx context.Context, d time.Duration) error {
	if err := o.begin(); err != nil {
		return err
	}
	err := harness.Sleep(ctx, d)
	return errors.Join(o.end(), err)
}

func (o *outage) begin() (err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.shared == 0 {
		if o.resume, err = o.pause(); err != nil {
			return err
		}
	}
	o.shared++
	return nil
}

func (o *outage) end() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.shared--; o.shared > 0 {
		return nil
	}
	return o.resume()
}
