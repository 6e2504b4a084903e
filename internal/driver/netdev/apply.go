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
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// rollbackTime bounds putting devices back when the caller's own time is up.
const rollbackTime = 5 * time.Second

// Attach moves the record's NICs into the network namespace at a path, in the
// record's order. When one fails, those that this call moved go back. A NIC
// that is there and up is done, whatever the pod has renamed it to.
func (d *Driver) Attach(ctx context.Context, r driver.Record, netnsPath string) ([]driver.DeviceStatus, error) {
	statuses, err := d.attachAll(ctx, r, netnsPath)
	if err != nil {
		return nil, fmt.Errorf("attach claim %s: %w", r.Claim, err)
	}
	return statuses, nil
}

func (d *Driver) attachAll(ctx context.Context, r driver.Record, netnsPath string) ([]driver.DeviceStatus, error) {
	pod, err := openSide(netnsPath)
	if err != nil {
		return nil, err
	}
	defer pod.close()
	if pod.namespace.ID() == d.host.namespace.ID() {
		return nil, errors.New("the pod uses the host's network: a NIC cannot move there; leave out hostNetwork or the claim")
	}
	var statuses []driver.DeviceStatus
	var moved []Plan
	for _, record := range r.Devices {
		a := attachment{Driver: d, pod: pod}
		err := ctx.Err()
		if err == nil {
			err = a.attach(record)
		}
		if a.moved {
			moved = append(moved, a.plan)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("device %s: %w", record.Device, err), d.putBack(ctx, moved, pod))
		}
		statuses = append(statuses, a.status)
	}
	return statuses, nil
}

// putBack undoes moves.
func (d *Driver) putBack(ctx context.Context, moved []Plan, pod *side) error {
	if len(moved) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
	defer cancel()
	return d.restore(ctx, moved, pod)
}

// attachment is one NIC on its way into a pod.
type attachment struct {
	*Driver
	pod    *side
	plan   Plan
	status driver.DeviceStatus
	// moved is set as soon as the NIC may have left the host.
	moved bool
}

func (a *attachment) attach(record driver.DeviceRecord) error {
	var err error
	a.plan, err = ReadPlan(record)
	if err != nil {
		return err
	}
	a.status.Device = record.Device
	if a.plan.Pod == nil {
		return nil
	}
	link, err := a.pod.find(a.plan)
	if err == nil && link == nil {
		link, err = a.move()
	}
	if err != nil {
		return err
	}
	// A link that is up has its settings and addresses.
	if !link.Up {
		if err := a.configure(link); err != nil {
			return err
		}
	}
	if err := a.look(link); err != nil {
		return err
	}
	return a.addRoutes(link.Index)
}

// move takes the NIC from the host.
func (a *attachment) move() (*rtnl.Link, error) {
	link, err := a.host.find(a.plan)
	if err != nil {
		return nil, err
	}
	if link == nil {
		return nil, fmt.Errorf("%s is neither on the host nor in the pod", identityOf(a.plan.NIC))
	}
	a.moved = true
	change := rtnl.Change{Name: &a.plan.Pod.Name, Settings: a.plan.Pod.Settings}
	err = a.host.conn.Move(link.Index, a.pod.namespace.Fd(), change)
	if errors.Is(err, syscall.EEXIST) {
		return nil, fmt.Errorf("interface.name: the pod has an interface %q, or one of that alternative name, already: choose another name: %w",
			a.plan.Pod.Name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("interface %s to %s in the pod: %w", link.Name, a.plan.Pod.Name, err)
	}
	link, err = a.pod.find(a.plan)
	if err == nil && link == nil {
		err = errors.New("it was moved, but is not in the pod")
	}
	return link, err
}

func (a *attachment) configure(link *rtnl.Link) error {
	want := a.plan.Pod
	for _, p := range want.Addresses {
		if err := a.pod.conn.AddAddress(link.Index, p); err != nil {
			return fmt.Errorf("interface %s: %w", link.Name, err)
		}
	}
	// A kernel that does not know a setting ignores it without a word.
	if ignored := want.Settings.Beyond(link.Settings); ignored != (rtnl.Settings{}) {
		return fmt.Errorf("interface %s: the kernel did not set %s", link.Name, ignored)
	}
	up := true
	if err := a.pod.conn.Set(link.Index, rtnl.Change{Up: &up}); err != nil {
		return fmt.Errorf("interface %s up: %w", link.Name, err)
	}
	return nil
}

// addRoutes adds the host's routes and neighbours, which need the link up. A
// pod that has taken addresses away has its own idea of routes, too.
func (a *attachment) addRoutes(index int) error {
	for _, p := range a.plan.Pod.Addresses {
		if !slices.Contains(a.status.IPs, p.String()) {
			return nil
		}
	}
	for _, n := range a.plan.Pod.Neighbours {
		if err := a.pod.conn.RestoreNeighbour(index, n); err != nil {
			return err
		}
	}
	return restoreRoutes(a.pod.conn, index, a.plan.Pod.Routes)
}

// look fills the status with what is really there.
func (a *attachment) look(link *rtnl.Link) error {
	a.status.InterfaceName = link.Name
	if link.MAC != nil {
		a.status.HardwareAddress = *link.MAC
	}
	addresses, err := a.pod.conn.Addresses()
	if err != nil {
		return err
	}
	for _, address := range addresses {
		if address.Index == link.Index && address.Global {
			a.status.IPs = append(a.status.IPs, address.Prefix.String())
		}
	}
	return nil
}

func (s *side) find(plan Plan) (*rtnl.Link, error) {
	links, err := s.conn.Links()
	if err != nil {
		return nil, err
	}
	return find(links, identityOf(plan.NIC))
}

// checkFree says in advance, and better, what the kernel would say.
func (s *side) checkFree(name string) error {
	links, err := s.conn.Links()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(links, func(l rtnl.Link) bool { return l.Name == name }) {
		return fmt.Errorf("interface.name: the pod has an interface %q already: choose another name", name)
	}
	return nil
}
