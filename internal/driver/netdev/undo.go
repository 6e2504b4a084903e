// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// A kernel that ends a pod's namespace returns the NIC some time after the
// namespace can no longer be opened, and says so nowhere but in the host's link
// list.
const (
	returnPoll = 20 * time.Millisecond
	returnTime = 3 * time.Second
)

// Detach brings the record's NICs back to the host as they were: from the pod,
// also when it renamed them, or from wherever the kernel put them. One that
// fails does not keep the others.
func (d *Driver) Detach(ctx context.Context, r driver.Record, netnsPath string) error {
	pod, err := d.openPod(netnsPath)
	if err != nil {
		return fmt.Errorf("detach claim %s: %w", r.Claim, err)
	}
	if pod != nil {
		defer pod.close()
	}
	var plans []Plan
	var errs []error
	for _, record := range r.Devices {
		plan, err := ReadPlan(record)
		switch {
		case err != nil:
			errs = append(errs, err)
		case plan.Host != nil:
			plans = append(plans, plan)
		}
	}
	errs = append(errs, d.restore(ctx, plans, pod))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("detach claim %s: %w", r.Claim, err)
	}
	return nil
}

// openPod is nil when there is no namespace of a pod at the path.
func (d *Driver) openPod(path string) (*side, error) {
	if path == "" {
		return nil, nil
	}
	pod, err := openSide(path)
	if errors.Is(err, netns.ErrGone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if pod.namespace.ID() == d.host.namespace.ID() {
		pod.close() // nothing was ever moved there
		return nil, nil
	}
	return pod, nil
}

// restore brings NICs back. pod is nil when its namespace is gone. All links
// come first: routes may lead through several of them.
func (d *Driver) restore(ctx context.Context, plans []Plan, pod *side) error {
	var errs []error
	home := map[int]int{} // index in plans to ifindex
	for i, plan := range slices.Backward(plans) {
		link, err := d.bringHome(ctx, plan, pod)
		if err != nil {
			errs = append(errs, fmt.Errorf("NIC %s: %w", plan.NIC, err))
		}
		if link != nil {
			home[i] = link.Index
		}
	}
	for i, plan := range plans {
		index, ok := home[i]
		if !ok {
			continue
		}
		err := d.restoreEntries(index, plan.Host)
		if err == nil {
			err = d.verify(plan)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("NIC %s: %w", plan.NIC, err))
		}
	}
	return errors.Join(errs...)
}

// bringHome returns the NIC's link on the host, with its settings and state. It
// is nil, without an error, when there will never be one again.
func (d *Driver) bringHome(ctx context.Context, plan Plan, pod *side) (*rtnl.Link, error) {
	if err := d.moveHome(plan, pod); err != nil {
		return nil, err
	}
	link, err := d.awaitHome(ctx, plan, pod)
	if err != nil || link == nil {
		return nil, err
	}
	return link, d.restoreLink(link, plan.Host)
}

// moveHome moves the NIC from the pod, if it is there.
func (d *Driver) moveHome(plan Plan, pod *side) error {
	if pod == nil {
		return nil
	}
	link, err := pod.find(plan)
	if err != nil || link == nil {
		return err
	}
	// A name that the pod added could be one of the host's by now, and the
	// kernel would refuse the move.
	if err := dropAltNames(pod.conn, link, plan.Host); err != nil {
		return err
	}
	name := plan.Host.Name
	err = pod.conn.Move(link.Index, d.host.namespace.Fd(), rtnl.Change{Name: &name})
	if errors.Is(err, syscall.EEXIST) {
		// Back under any name is better than lost with the pod.
		name = "dev%d"
		err = pod.conn.Move(link.Index, d.host.namespace.Fd(), rtnl.Change{Name: &name})
	}
	if err != nil {
		return fmt.Errorf("interface %s of the pod back to %s: %w", link.Name, plan.Host.Name, err)
	}
	return nil
}

// awaitHome returns the NIC's link on the host. It is nil, without an error,
// when there will never be one again.
func (d *Driver) awaitHome(ctx context.Context, plan Plan, pod *side) (*rtnl.Link, error) {
	ctx, cancel := context.WithTimeout(ctx, returnTime)
	defer cancel()
	for {
		link, err := d.host.find(plan)
		if err != nil || link != nil {
			return link, err
		}
		switch {
		case plan.NIC.PCI != nil && !exists(d.sys, "bus/pci/devices/"+plan.NIC.PCI.String()):
			return nil, nil // pulled out
		case plan.NIC.PCI == nil && plan.Host.Kind != nil && pod == nil:
			return nil, nil // a virtual link ends with the namespace it is in
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s has not come back to the host: %w", identityOf(plan.NIC), context.Cause(ctx))
		case <-time.After(returnPoll):
		}
	}
}

// restoreLink restores name, settings and state.
func (d *Driver) restoreLink(link *rtnl.Link, want *HostState) error {
	change := rtnl.Change{Settings: want.Settings.Beyond(link.Settings)}
	change.AddrGenMode = nil
	if link.Name != want.Name {
		if d.host.checkFree(want.Name) != nil {
			return fmt.Errorf("the host has another interface %q by now: the NIC is back as %s; rename the other one", want.Name, link.Name)
		}
		change.Name = &want.Name
	}
	if link.Up && (change.Name != nil || change.MAC != nil) {
		// Older kernels and some drivers change these on a link that is down
		// only.
		down := false
		if err := d.host.conn.Set(link.Index, rtnl.Change{Up: &down}); err != nil {
			return fmt.Errorf("interface %s down: %w", link.Name, err)
		}
		link.Up = false
	}
	if change != (rtnl.Change{}) {
		if err := d.host.conn.Set(link.Index, change); err != nil {
			return fmt.Errorf("restore interface %s: %w", want.Name, err)
		}
	}
	if err := d.restoreAltNames(link, want); err != nil {
		return err
	}
	// Last of the settings: a link whose MTU a pod made too small for IPv6 has
	// none of IPv6's before the MTU is back.
	if want.Settings.AddrGenMode != nil {
		mode := rtnl.Settings{AddrGenMode: want.Settings.AddrGenMode}
		if err := d.host.conn.Set(link.Index, rtnl.Change{Settings: mode}); err != nil {
			return fmt.Errorf("restore interface %s: %s: %w", want.Name, mode, err)
		}
	}
	if want.Up && !link.Up {
		// Not together with the settings: the kernel makes link-local
		// addresses at once, in the way they say.
		if err := d.host.conn.Set(link.Index, rtnl.Change{Up: &want.Up}); err != nil {
			return fmt.Errorf("interface %s up: %w", want.Name, err)
		}
	}
	return nil
}

func (d *Driver) restoreAltNames(link *rtnl.Link, want *HostState) error {
	if err := dropAltNames(d.host.conn, link, want); err != nil {
		return err
	}
	for _, name := range want.AltNames {
		if slices.Contains(link.AltNames, name) {
			continue
		}
		if err := d.host.conn.AddAltName(link.Index, name); err != nil {
			return err
		}
	}
	return nil
}

// dropAltNames takes names away that the link did not have on the host.
func dropAltNames(conn *rtnl.Conn, link *rtnl.Link, want *HostState) error {
	for _, name := range link.AltNames {
		if slices.Contains(want.AltNames, name) {
			continue
		}
		if err := conn.DeleteAltName(link.Index, name); err != nil {
			return err
		}
	}
	return nil
}
