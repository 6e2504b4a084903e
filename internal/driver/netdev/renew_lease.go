// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev/podstate"
	"plumbline.dev/plumbline/internal/host/dhcp"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// renewRetry is the least time between two tries at a lease (RFC 2131 section
// 4.4.5).
const renewRetry = time.Minute

// Renew renews the leases that are due from inside the pod. For one that has expired,
// or that the server refuses, it acquires a new one, which may have another address.
// next is when the first lease is due again.
func (d *Driver) Renew(ctx context.Context, r driver.Record, netnsPath string) (driver.Record, time.Time, error) {
	plans, err := plansOf(r)
	if err != nil {
		return r, time.Time{}, fmt.Errorf("renew claim %s: %w", r.Claim, err)
	}
	if !slices.ContainsFunc(plans, func(p Plan) bool { return p.lease() != nil }) {
		return r, time.Time{}, nil
	}
	pod, err := d.openPod(netnsPath)
	if err != nil {
		return r, time.Time{}, fmt.Errorf("renew claim %s: %w", r.Claim, err)
	}
	defer d.closePod(pod)
	r.Devices = slices.Clone(r.Devices)
	var next time.Time
	var errs []error
	for i, plan := range plans {
		lease := plan.lease()
		if lease == nil {
			continue
		}
		if lease.T1.IsZero() {
			continue // a lease without an end
		}
		if !d.now().Before(lease.T1) {
			if err := d.renewLease(ctx, &r.Devices[i], plan, pod, r.Pods); err != nil {
				errs = append(errs, fmt.Errorf("device %s: %w", r.Devices[i].Device, err))
			}
		}
		if due := d.due(plan.lease()); next.IsZero() || due.Before(next) {
			next = due
		}
	}
	if err := errors.Join(errs...); err != nil {
		return r, next, fmt.Errorf("renew claim %s: %w", r.Claim, err)
	}
	return r, next, nil
}

// due is when to renew a lease, or to try again: half of what is left.
func (d *Driver) due(lease *dhcp.Lease) time.Time {
	now := d.now()
	if now.Before(lease.T1) {
		return lease.T1
	}
	return now.Add(max(lease.Expiry.Sub(now)/2, renewRetry))
}

func (d *Driver) renewLease(ctx context.Context, record *driver.DeviceRecord, plan Plan, pod *podstate.Pod, pods []driver.PodRef) error {
	link, err := pod.Find(plan.identity())
	if err != nil {
		return err
	}
	if link == nil {
		return fmt.Errorf("%s is not in the pod", plan.identity())
	}
	old := *plan.Stage.Lease
	lease, err := d.askAgain(ctx, pod.Fd(), link, old, pods)
	if err != nil {
		return fmt.Errorf("interface %s: %w", link.Name, err)
	}
	*plan.Stage.Lease = lease
	if err := plan.Pod.ChangeLease(pod, link.Index, &old, &lease, d.now()); err != nil {
		return fmt.Errorf("interface %s: %w", link.Name, err)
	}
	record.Plan, err = json.Marshal(plan)
	return err
}

// askAgain renews a lease, or gets another one.
func (d *Driver) askAgain(ctx context.Context, namespace int, link *rtnl.Link, old dhcp.Lease, pods []driver.PodRef) (dhcp.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, dhcpTime)
	defer cancel()
	o := d.dhcpOptions(pods)
	if podstate.LeaseValid(&old, d.now()) {
		lease, err := dhcp.Renew(ctx, namespace, link.Name, old, o)
		if err == nil || !errors.Is(err, dhcp.ErrRefused) {
			return lease, err
		}
	}
	return dhcp.Acquire(ctx, namespace, link.Name, o)
}
