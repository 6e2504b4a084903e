// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"context"
	"errors"
	"fmt"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev/hoststate"
	"plumbline.dev/plumbline/internal/driver/netdev/podstate"
	"plumbline.dev/plumbline/internal/host/dhcp"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// Unstage makes the devices what they were, and gives leases back. They are on
// the host.
func (d *Driver) Unstage(ctx context.Context, r driver.Record) error {
	if err := d.unstage(ctx, r); err != nil {
		return fmt.Errorf("unstage claim %s: %w", r.Claim, err)
	}
	return nil
}

func (d *Driver) unstage(ctx context.Context, r driver.Record) error {
	plans, err := plansOf(r)
	errs := []error{err}
	links, err := d.host.Links()
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	var nics []hoststate.Return
	for _, plan := range plans {
		if plan.Host == nil {
			continue
		}
		link, err := plan.onHost().Find(links)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if link == nil {
			continue // Detach says so, unless there will never be one again
		}
		errs = append(errs, d.giveBack(ctx, link, plan))
		nics = append(nics, hoststate.Return{ID: plan.onHost(), Want: plan.Host, Device: true})
	}
	return errors.Join(append(errs, d.host.Restore(links, nics, d.now()))...)
}

// giveBack releases the lease, if the link can send. A server that does not hear
// of it takes the address back when the lease runs out.
func (d *Driver) giveBack(ctx context.Context, link *rtnl.Link, plan Plan) error {
	if plan.Stage == nil || !plan.Stage.DHCP {
		return nil
	}
	if lease := plan.lease(); lease != nil && podstate.Lives(lease, d.now()) {
		if err := d.setUp(link, true); err != nil {
			return err
		}
		if err := dhcp.Release(ctx, d.host.Fd(), link.Name, *lease); err != nil {
			return fmt.Errorf("interface %s: release %s: %w", link.Name, lease.Address, err)
		}
	}
	if plan.Host.Up {
		return nil
	}
	return d.setUp(link, false) // asking for the lease had set it up
}

func (d *Driver) setUp(link *rtnl.Link, up bool) error {
	if link.Up == up {
		return nil
	}
	if err := d.host.Set(link.Index, rtnl.Change{Up: &up}); err != nil {
		return fmt.Errorf("interface %s up: %t: %w", link.Name, up, err)
	}
	link.Up = up
	return nil
}
