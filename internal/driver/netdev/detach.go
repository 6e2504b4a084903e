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
	"plumbline.dev/plumbline/internal/driver/netdev/hoststate"
	"plumbline.dev/plumbline/internal/driver/netdev/podstate"
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
// also when it renamed them, or from wherever the kernel put them. After an error
// with one it goes on with the others.
func (d *Driver) Detach(ctx context.Context, r driver.Record, netnsPath string) error {
	if err := d.detach(ctx, r, netnsPath); err != nil {
		return fmt.Errorf("detach claim %s: %w", r.Claim, err)
	}
	return nil
}

func (d *Driver) detach(ctx context.Context, r driver.Record, netnsPath string) error {
	pod, err := d.openIfThere(netnsPath)
	if err != nil {
		return err
	}
	if pod != nil {
		defer d.closePod(pod)
	}
	plans, err := plansOf(r)
	plans = slices.DeleteFunc(plans, func(p Plan) bool { return p.Host == nil && !p.moves() })
	return errors.Join(err, d.restore(ctx, plans, pod))
}

// openIfThere is nil when there is no namespace of a pod at the path.
func (d *Driver) openIfThere(path string) (*podstate.Pod, error) {
	if path == "" {
		return nil, nil
	}
	pod, err := d.openPod(path)
	if errors.Is(err, netns.ErrGone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if pod.Is(d.host.NetNSConn) {
		d.closePod(pod) // nothing was ever moved there
		return nil, nil
	}
	return pod, nil
}

// restore brings NICs back. pod is nil when its namespace is gone. All links
// come first: routes may lead through several of them.
func (d *Driver) restore(ctx context.Context, plans []Plan, pod *podstate.Pod) error {
	errs := []error{d.takeFrom(pod, plans), d.awaitRDMA(ctx, plans)}
	plans = slices.DeleteFunc(plans, func(p Plan) bool { return p.Host == nil })
	if len(plans) == 0 {
		return errors.Join(errs...)
	}
	links, home, err := d.awaitHome(ctx, plans, pod)
	errs = append(errs, err)
	var nics []hoststate.ReturnedNIC
	for _, plan := range home {
		nics = append(nics, hoststate.ReturnedNIC{ID: plan.onHost(), Want: plan.Host})
	}
	errs = append(errs, d.host.Restore(links, nics, d.now()))
	for _, plan := range home {
		if err := d.remakeRDMA(plan); err != nil {
			errs = append(errs, fmt.Errorf("%s: RDMA device %s: %w", plan.onHost(), plan.RDMA.Name, err))
		}
	}
	return errors.Join(errs...)
}

// takeFrom moves everything of the plans out of the pod, and removes what was made there
// for them.
func (d *Driver) takeFrom(pod *podstate.Pod, plans []Plan) error {
	if pod == nil {
		return nil
	}
	links, err := nicsIn(pod, plans)
	if err != nil {
		return err
	}
	var errs []error
	var states []*podstate.State
	for _, plan := range slices.Backward(plans) {
		if err := d.fromPod(plan, pod.Fd()); err != nil {
			errs = append(errs, fmt.Errorf("RDMA device %s: %w", plan.RDMA.Name, err))
		}
		if plan.Pod == nil {
			continue
		}
		states = append(states, plan.Pod)
		link, err := plan.identity().Find(links)
		switch {
		case err != nil || link == nil:
		case plan.Child != nil:
			err = pod.DeleteLink(link.Index)
		default:
			errs = append(errs, hoststate.DropPrograms(pod.NetNSConn, link, plan.Host))
			err = d.moveHome(plan, link, pod)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", plan.identity(), err))
		}
	}
	return errors.Join(append(errs, podstate.Undo(pod, states))...)
}

// moveHome moves a NIC out of the pod.
func (d *Driver) moveHome(plan Plan, link *rtnl.Link, pod *podstate.Pod) error {
	// A name that the pod added could be one of the host's by now, and the
	// kernel would refuse the move.
	if err := hoststate.DropAltNames(pod.Conn, link, plan.Host); err != nil {
		return err
	}
	change := rtnl.Change{Name: &plan.Host.Name}
	if plan.NIC.PCI == nil {
		// A virtual link is identified by its MAC.
		change.MAC = rtnl.Settings{MAC: plan.Host.Settings.MAC}.Beyond(link.Settings).MAC
	}
	err := pod.Move(link.Index, d.host.Fd(), change)
	if errors.Is(err, syscall.EEXIST) {
		err = d.moveUnderFreeName(link, pod, change)
	}
	if err != nil {
		return fmt.Errorf("interface %s of the pod back to %s: %w", link.Name, plan.Host.Name, err)
	}
	return nil
}

// moveUnderFreeName moves a NIC home whose name, or one of whose alternative names,
// another link of the host has by now: under any name is better than lost with the
// pod. Restoring reports the conflict.
func (d *Driver) moveUnderFreeName(link *rtnl.Link, pod *podstate.Pod, change rtnl.Change) error {
	err := hoststate.DropAltNames(pod.Conn, link, &hoststate.State{})
	if err == nil {
		err = pod.Move(link.Index, d.host.Fd(), change)
	}
	if errors.Is(err, syscall.EEXIST) {
		free := "dev%d"
		change.Name = &free
		err = pod.Move(link.Index, d.host.Fd(), change)
	}
	if errors.Is(err, syscall.ENODEV) {
		return nil // it had left before its name was refused (net/core/rtnetlink.c, do_setlink)
	}
	return err
}

// awaitHome returns the host's links once all NICs are among them, and the plans
// of those that are: of some there will never be a link again, and the error says so.
func (d *Driver) awaitHome(ctx context.Context, plans []Plan, pod *podstate.Pod) ([]rtnl.Link, []Plan, error) {
	ctx, cancel := context.WithTimeout(ctx, returnTime)
	defer cancel()
	for {
		links, err := d.host.Links()
		if err != nil {
			return nil, nil, err
		}
		var home []Plan
		var errs []error
		waiting := false
		for _, plan := range plans {
			link, err := plan.onHost().Find(links)
			switch {
			case err != nil:
				errs = append(errs, err)
			case link != nil:
				home = append(home, plan)
			case d.gone(plan, pod):
				errs = append(errs, driver.GoneError{Err: fmt.Errorf("%s, interface %s, is gone: it is neither on the host nor in the pod, and nothing of it is restored",
					plan.onHost(), plan.Host.Name)})
			default:
				waiting = true
				errs = append(errs, fmt.Errorf("%s has not come back to the host", plan.onHost()))
			}
		}
		if !waiting || ctx.Err() != nil {
			return links, home, errors.Join(errs...)
		}
		select {
		case <-ctx.Done():
		case <-time.After(returnPoll):
		}
	}
}

// gone tells whether a NIC that is not on the host will never be again: hardware
// that was pulled out, and a virtual link that is not in the pod either.
func (d *Driver) gone(plan Plan, pod *podstate.Pod) bool {
	if plan.NIC.PCI != nil {
		return !exists(d.sys, "bus/pci/devices/"+plan.NIC.PCI.String())
	}
	if plan.Host.Kind == nil || pod == nil {
		return plan.Host.Kind != nil // a virtual link ends with the namespace it is in
	}
	link, err := pod.Find(plan.identity())
	return err == nil && link == nil
}
