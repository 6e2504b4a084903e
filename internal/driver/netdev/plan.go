// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev/hoststate"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// planner decides about one claim. It is pure: what it knows of the kernel was
// read before.
type planner struct {
	claim  driver.Claim
	held   []driver.Record
	m      *model.Machine
	bootID string
	facts  facts
	pod    *podUse
	// away are the NICs that held hold, as they were on the host.
	away []*hoststate.State
}

// plan is the whole record, or every reason why there is none.
func (p planner) plan() (driver.Record, error) {
	r := driver.Record{
		Version: driver.RecordVersion,
		BootID:  p.bootID,
		Driver:  Name,
		Claim:   p.claim.ClaimRef,
		Pods:    p.claim.Pods,
	}
	var err error
	if p.pod, err = usedBy(p.claim, p.held); err != nil {
		return driver.Record{}, fmt.Errorf("claim %s: %w", p.claim.ClaimRef, err)
	}
	if p.away, err = awayFrom(p.held); err != nil {
		return driver.Record{}, fmt.Errorf("claim %s: %w", p.claim.ClaimRef, err)
	}
	configs := make([]*v1alpha1.NetworkConfig, len(p.claim.Devices))
	problems := make([]error, len(p.claim.Devices))
	for i, a := range p.claim.Devices {
		if a.AdminAccess {
			continue
		}
		if configs[i], problems[i] = configOf(a.Configs); problems[i] == nil {
			p.pod.reserve(configs[i], p.facts.nics[a.Device].seen)
		}
	}
	taken := map[string]bool{}
	var errs []error
	for i, a := range p.claim.Devices {
		d, err := p.device(a, configs[i], problems[i], taken)
		if err != nil {
			errs = append(errs, fmt.Errorf("claim %s, request %s, device %s: %w", p.claim.ClaimRef, a.Request, a.Device, err))
			continue
		}
		r.Devices = append(r.Devices, d)
	}
	if err := errors.Join(errs...); err != nil {
		return driver.Record{}, err
	}
	return r, nil
}

// device plans one allocation. problem is why its parameters cannot be read;
// taken are the devices planned before.
func (p planner) device(a driver.Allocation, c *v1alpha1.NetworkConfig, problem error, taken map[string]bool) (driver.DeviceRecord, error) {
	nic := slicecodec.FindNIC(p.m, a.Device)
	if nic == nil {
		return driver.DeviceRecord{}, errors.New("this node has no such NIC")
	}
	d := driver.DeviceRecord{Request: a.Request, Pool: a.Pool, Device: a.Device, AdminAccess: a.AdminAccess}
	plan := Plan{NIC: *nic, Alone: alone(p.m, nic)}
	if !a.AdminAccess {
		if err := p.mayTake(a, nic, taken); err != nil {
			return driver.DeviceRecord{}, err
		}
		taken[a.Device] = true
		if problem != nil {
			return driver.DeviceRecord{}, problem
		}
		if err := p.placement(a, c, &plan); err != nil {
			return driver.DeviceRecord{}, err
		}
		var err error
		if d.Edits, err = edits(nic.RDMA, c, p.facts.rdmaCM); err != nil {
			return driver.DeviceRecord{}, err
		}
	}
	if plan.Pod != nil {
		if err := p.pod.add(plan.Pod, "for device "+a.Device); err != nil {
			return driver.DeviceRecord{}, err
		}
	}
	var err error
	d.Plan, err = json.Marshal(plan)
	return d, err
}

// alone tells whether no other interface, held ones included, is known on a NIC's
// PCI function.
func alone(m *model.Machine, nic *model.NIC) bool {
	return nic.PCI != nil && nic.Port == nil && !slices.ContainsFunc(m.NICs, func(o model.NIC) bool {
		return o.PCI != nil && *o.PCI == *nic.PCI && o.Port != nil
	})
}

// mayTake refuses what must not be taken from the host or from another claim.
func (p planner) mayTake(a driver.Allocation, nic *model.NIC, taken map[string]bool) error {
	switch {
	case nic.Withheld != nil:
		return fmt.Errorf("%s is not offered: it %s", nic, *nic.Withheld)
	case a.ShareID != nil:
		return fmt.Errorf("share %s: this build moves whole NICs only", *a.ShareID)
	case taken[a.Device]:
		return errors.New("the claim lists it twice")
	}
	for _, r := range p.held {
		for _, d := range r.Devices {
			if d.Device == a.Device && !d.AdminAccess && r.Claim.UID != p.claim.UID {
				return driver.HeldError{Err: fmt.Errorf("claim %s holds it", r.Claim)}
			}
		}
	}
	return nil
}

// placement plans the interface, where the NIC has one, and the RDMA device.
func (p planner) placement(a driver.Allocation, c *v1alpha1.NetworkConfig, plan *Plan) error {
	if c.RDMA != nil && plan.NIC.RDMA == nil {
		return errors.New("rdma: the NIC has no RDMA device: leave it out")
	}
	plan.RDMA = p.facts.rdmaPlan(plan.NIC.RDMA)
	if plan.NIC.Interface == nil {
		return errors.Join(refuseLoss(plan), c.ValidateRDMAOnly())
	}
	if err := c.Unapplied().ToAggregate(); err != nil {
		return err
	}
	if err := p.checkMTU(plan.NIC, c); err != nil {
		return err
	}
	known := p.facts.nics[a.Device]
	if known.err != nil {
		return known.err
	}
	seen := *known.seen
	if err := p.keepPrograms(a.Device, c, &seen.State); err != nil {
		return err
	}
	for _, other := range p.away {
		// Routes that lead through this NIC, too.
		if err := seen.State.Inherit(other); err != nil {
			return err
		}
	}
	// Whoever mends the one field should learn of the other too.
	var stageErr, podErr error
	plan.Stage, stageErr = stageOf(c, &seen)
	plan.Host = &seen.State
	plan.Pod, podErr = p.pod.stateOf(c, &seen)
	return errors.Join(stageErr, podErr)
}

// refuseLoss refuses to move an RDMA device from under an interface that is to stay:
// the kernel takes all its users off a device that changes its network namespace,
// IPoIB among them (drivers/infiniband/core/device.c, rdma_dev_change_netns).
func refuseLoss(plan *Plan) error {
	if plan.RDMA == nil || !plan.RDMA.Exclusive || plan.NIC.RDMA.HostInterface == nil {
		return nil
	}
	return lossOf(plan.NIC.RDMA)
}

// lossOf says what the host would lose with an RDMA device that it has an interface of.
func lossOf(d *model.RDMADevice) error {
	return fmt.Errorf("RDMA device %s: the host would lose interface %s, which --move-ib-interfaces=false leaves there: want a node in mode shared (rdma system set netns shared)",
		d.Name, *d.HostInterface)
}

// keepPrograms says what the eBPF programs are held under: those that the move
// loses, that the configuration takes off, and that a pod may.
func (p planner) keepPrograms(device string, c *v1alpha1.NetworkConfig, s *hoststate.State) error {
	if len(s.Programs) == 0 {
		return nil
	}
	if p.facts.keepsPrograms {
		s.Key = device
		return nil
	}
	return hoststate.RefuseUnkept(s, c.Interface.DisableEBPFPrograms != nil && *c.Interface.DisableEBPFPrograms)
}

// checkMTU holds a virtual function to the MTU of its physical one, beyond
// which the hardware drops what the kernel lets pass.
func (p planner) checkMTU(nic model.NIC, c *v1alpha1.NetworkConfig) error {
	if c.Interface.MTU == nil || nic.PCI == nil {
		return nil
	}
	f := p.m.Function(*nic.PCI)
	if f == nil || f.PhysicalFunction == nil {
		return nil
	}
	for _, other := range p.m.NICs {
		if other.PCI == nil || *other.PCI != *f.PhysicalFunction || other.Interface == nil || other.Interface.MTU == nil {
			continue
		}
		if int(*c.Interface.MTU) > *other.Interface.MTU {
			return fmt.Errorf("interface.mtu: %d: want at most %d, the MTU of its physical function %s",
				*c.Interface.MTU, *other.Interface.MTU, other)
		}
	}
	return nil
}
