// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev/podstate"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// rollbackTime bounds putting devices back when the caller's own time is up.
const rollbackTime = 5 * time.Second

// transaction is one call of Attach.
type transaction struct {
	*Driver
	pod *podstate.Pod
	// inPod and onHost are the links before anything moved; onHost is nil until
	// something must.
	inPod, onHost []rtnl.Link
	// moved are the NICs that may have left the host.
	moved []Plan
}

func (t *transaction) attach(ctx context.Context, r driver.Record, plans []Plan) ([]driver.DeviceStatus, error) {
	var err error
	if t.inPod, err = t.pod.Links(); err != nil {
		return nil, err
	}
	statuses := make([]driver.DeviceStatus, len(plans))
	links := make([]*rtnl.Link, len(plans))
	for i, plan := range plans {
		statuses[i].Device = r.Devices[i].Device
		if err = ctx.Err(); err == nil {
			links[i], err = t.attachOne(plan)
		}
		if err != nil {
			return nil, fmt.Errorf("device %s: %w", r.Devices[i].Device, err)
		}
	}
	addresses, err := t.pod.Addresses()
	if err != nil {
		return nil, err
	}
	for i, plan := range plans {
		if links[i] == nil {
			continue
		}
		have := describe(&statuses[i], links[i], addresses)
		if err := plan.Pod.Finish(t.pod, links[i].Index, have, plan.lease(), t.now()); err != nil {
			return nil, fmt.Errorf("device %s: interface %s: %w", r.Devices[i].Device, links[i].Name, err)
		}
	}
	return statuses, nil
}

// attachOne brings one device into the pod. The link is nil where the device
// has none.
func (t *transaction) attachOne(plan Plan) (*rtnl.Link, error) {
	var link *rtnl.Link
	if plan.Pod != nil {
		var err error
		if link, err = t.bring(plan); err != nil {
			return nil, err
		}
	}
	if plan.RDMA != nil && plan.RDMA.Exclusive {
		if link == nil {
			t.moved = append(t.moved, plan)
		}
		if err := moveRDMA(plan, t.host.Fd(), t.pod.Fd()); err != nil {
			return nil, fmt.Errorf("RDMA device %s: %w", plan.RDMA.Name, err)
		}
	}
	return link, nil
}

// bring moves the interface and configures it. A link that is up has its
// settings and addresses.
func (t *transaction) bring(plan Plan) (*rtnl.Link, error) {
	link, err := plan.identity().Find(t.inPod)
	if err == nil && link == nil {
		link, err = t.move(plan)
	}
	if err != nil || link.Up {
		return link, err
	}
	if err := dropPrograms(t.pod, link.Index, plan); err != nil {
		return nil, err
	}
	return link, plan.Pod.Configure(t.pod, link, plan.lease())
}

// move takes the NIC from the host.
func (t *transaction) move(plan Plan) (*rtnl.Link, error) {
	id := plan.onHost()
	var err error
	if t.onHost == nil {
		if t.onHost, err = t.host.Links(); err != nil {
			return nil, err
		}
	}
	link, err := id.Find(t.onHost)
	if err != nil {
		return nil, err
	}
	if link == nil {
		return nil, fmt.Errorf("%s is neither on the host nor in the pod", id)
	}
	t.moved = append(t.moved, plan)
	name := plan.Pod.Name
	err = t.host.Move(link.Index, t.pod.Fd(), rtnl.Change{Name: &name, Settings: plan.Pod.Settings})
	if errors.Is(err, syscall.EEXIST) {
		return nil, fmt.Errorf("interface.name: the pod has an interface %q, or one of that alternative name, already: choose another name: %w", name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("interface %s to %s in the pod: %w", link.Name, name, err)
	}
	arrived, err := t.pod.LinkByName(name)
	if err == nil && (arrived == nil || !plan.identity().Matches(*arrived)) {
		err = errors.New("it was moved, but is not in the pod")
	}
	return arrived, err
}

// putBack undoes the moves of this call.
func (t *transaction) putBack(ctx context.Context) error {
	if len(t.moved) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
	defer cancel()
	return t.restore(ctx, t.moved, t.pod)
}
