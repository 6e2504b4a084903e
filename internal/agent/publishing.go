// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"

	"plumbline.dev/plumbline/internal/agent/publish"
	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/model"
)

// newLoop is what keeps the published devices true, from the first picture on.
func (a *agent) newLoop(scans <-chan inventory.Snapshot) *publish.Loop {
	return &publish.Loop{
		Picture: a.picture, Scans: scans, Held: a.heldNICs, HeldChanged: a.heldChanged,
		Described: a.clouds.book.Changed(),
		Taken: func() {
			a.clouds.book.Watch(a.picture.Current())
			a.runtime.Repin()
		},
	}
}

// heldNICs are the NICs of all records.
func (a *agent) heldNICs(ctx context.Context) ([]model.NIC, error) {
	var held []model.NIC
	for _, p := range a.preparers {
		nics, err := p.Held(ctx)
		if err != nil {
			return nil, err
		}
		held = append(held, nics...)
	}
	return held, nil
}

// claimsChanged is called after a record came or went.
func (a *agent) claimsChanged() {
	a.runtime.Repin()
	select {
	case a.heldChanged <- struct{}{}:
	default: // one is waiting, and will show this change too
	}
}
