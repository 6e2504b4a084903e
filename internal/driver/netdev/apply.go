// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

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
	plans, err := readAll(r, readBrief)
	if err != nil {
		return nil, err
	}
	pod, err := d.openPod(netnsPath)
	if err != nil {
		return nil, err
	}
	defer d.closePod(pod)
	if pod.Is(d.host.NetNSConn) {
		return nil, errors.New("the pod uses the host's network: a NIC cannot move there; leave out hostNetwork or the claim")
	}
	t := &transaction{Driver: d, pod: pod}
	statuses, err := t.attach(ctx, r, plans)
	if err != nil {
		return nil, errors.Join(err, t.putBack(ctx, r))
	}
	return statuses, nil
}

// describe fills the status with what is really there, and returns the
// addresses of the link.
func describe(s *driver.DeviceStatus, link *rtnl.Link, addresses []rtnl.Prefix) []netip.Prefix {
	s.InterfaceName = link.Name
	if link.MAC != nil {
		s.HardwareAddress = *link.MAC
	}
	var have []netip.Prefix
	for _, a := range addresses {
		have = append(have, a.Prefix)
		if a.Global {
			s.IPs = append(s.IPs, a.String())
		}
	}
	return have
}

// plansOf are the plans of a record's devices, in its order. One that cannot be
// read is empty, beside the error.
func plansOf(r driver.Record) ([]Plan, error) { return readAll(r, ReadPlan) }

func readAll(r driver.Record, read func(driver.DeviceRecord) (Plan, error)) ([]Plan, error) {
	plans := make([]Plan, len(r.Devices))
	var errs []error
	for i, d := range r.Devices {
		var err error
		plans[i], err = read(d)
		errs = append(errs, err)
	}
	return plans, errors.Join(errs...)
}
