// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"fmt"

	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/model"
)

// Held are the NICs of all records of this boot, as they were on the host: a
// reboot has brought the others back. One record that cannot be read must not
// keep what the node publishes from changing.
func (p *Preparer) Held(ctx context.Context) ([]model.NIC, error) {
	return heldIn(ctx, p, p.HeldNICs)
}

// SharesHeld are the shares of NICs that all records of this boot have.
func (p *Preparer) SharesHeld(ctx context.Context) ([]model.HeldShare, error) {
	return heldIn(ctx, p, p.HeldShares)
}

// decodes says why the driver cannot read what a record of this boot holds.
func (p *Preparer) decodes(r driver.Record) error {
	if p.HeldNICs == nil || r.BootID != p.BootID {
		return nil
	}
	_, err := p.HeldNICs(r)
	return err
}

// tellUnreadable tells of a record, and of what follows from it.
func (p *Preparer) tellUnreadable(ctx context.Context, problem error, follows string) {
	klog.FromContext(ctx).Error(problem, "journal record cannot be read; "+follows, "driver", p.Name())
	if p.Unreadable != nil {
		p.Unreadable(fmt.Errorf("a record of %s in the journal cannot be read: %w; %s", p.Name(), problem, follows))
	}
}

func heldIn[T any](ctx context.Context, p *Preparer, of func(driver.Record) ([]T, error)) ([]T, error) {
	if of == nil {
		return nil, nil
	}
	records, _, err := p.Journal.List(p.Name())
	var held []T
	for _, r := range records {
		if r.BootID != p.BootID {
			continue
		}
		nics, err := of(r)
		if err != nil {
			klog.FromContext(ctx).Error(err, "held NICs are not published", "driver", p.Name(), "claim", r.Claim.String())
			continue
		}
		held = append(held, nics...)
	}
	return held, err
}
