// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
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
	held   []heldDevice
	m      *model.Machine
	bootID string
	facts  facts
	pod    *podUse
	// away are the NICs that held hold, as they were on the host.
	away []*hoststate.State
	// addresses are in use: those of held, and those that were chosen for this claim.
	addresses map[netip.Addr]bool
	// children are the links on shared NICs: those of held, and those that were planned for
	// this claim.
	children *[]heldChild
}

// plan is the whole record, or every reason why there is none. held are the records of other
// claims.
func (p planner) plan(held []driver.Record) (driver.Record, error) {
	r := driver.Record{
		Version: driver.RecordVersion,
		BootID:  p.bootID,
		Driver:  Name,
		Claim:   p.claim.ClaimRef,
		Pods:    p.claim.Pods,
	}
	var err error
	if p.held, err = readHeld(held); err != nil {
		return driver.Record{}, fmt.Errorf("claim %s: %w", p.claim.ClaimRef, err)
	}
	p.pod, p.away, p.addresses = usedBy(p.claim, p.held), heldStates(p.held), heldAddresses(p.held)
	children := heldChildren(p.held, p.claim)
	p.children = &children
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
		if a.ShareID != nil {
			r.Version = driver.RecordVersionShares
		}
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
	if a.ShareID != nil {
		d.ShareID = string(*a.ShareID)
		nic = nic.InShares()
	}
	plan := Plan{NIC: *nic, Alone: alone(p.m, nic)}
	if !a.AdminAccess {
		if err := p.mayTake(a, nic, taken); err != nil {
			return driver.DeviceRecord{}, err
		}
		taken[key(a, nic)] = true
		if problem != nil {
			return driver.DeviceRecord{}, problem
		}
		if a.ShareID != nil {
			c = withOffer(c, nic.Share)
		}
		if err := p.placement(a, c, &plan); err != nil {
			return driver.DeviceRecord{}, err
		}
		var err error
		if plan.ManagementFiles, err = managementFiles(nic.RDMA, c); err != nil {
			return driver.DeviceRecord{}, err
		}
		d.Edits, d.RDMA = fileEdits(plan), nic.RDMA != nil && (plan.Child != nil || !nic.RDMA.Software)
	}
	if plan.Pod != nil {
		if err := p.pod.add(plan.Pod, "for device "+a.Device); err != nil {
			return driver.DeviceRecord{}, err
		}
	}
	if plan.Child != nil {
		*p.children = append(*p.children, childHeld(&plan, "request "+a.Request+" of this claim", false))
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

// key tells allocations apart: of one NIC there is one, or one for each share.
func key(a driver.Allocation, nic *model.NIC) string {
	if a.ShareID == nil {
		return slicecodec.NICName(*nic)
	}
	return slicecodec.NICName(*nic) + "/" + string(*a.ShareID)
}

// placement plans the interface, where the NIC has one, and the RDMA device.
func (p planner) placement(a driver.Allocation, c *v1alpha1.NetworkConfig, plan *Plan) error {
	if c.RDMA != nil && plan.NIC.RDMA == nil {
		return errors.New("rdma: the NIC has no RDMA device: leave it out")
	}
	if c.NCCL() {
		plan.NCCL = &NCCL{GPUs: p.claim.GPUs}
	}
	plan.Container = containerOf(c)
	var err error
	if plan.NIC.Interface != nil {
		if c, plan.Block, err = p.fromPool(a, c); err != nil {
			return err
		}
	}
	if a.ShareID != nil {
		return p.placeChild(a, c, plan)
	}
	plan.RDMA = p.facts.rdmaPlan(plan.NIC.RDMA)
	if err = errors.Join(refuseIPoIB(plan), p.refuseHalf(plan)); err != nil {
		return err
	}
	if plan.NIC.Interface == nil {
		return errors.Join(refuseLoss(plan), c.ValidateRDMAOnly())
	}
	if err := refuseChild(c); err != nil {
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
	// Both are reported, so that a user can correct both fields at once.
	var stageErr, podErr error
	plan.Stage, stageErr = stageOf(c, &seen)
	plan.Host = &seen.State
	plan.Pod, podErr = p.pod.stateOf(c, &seen)
	return errors.Join(stageErr, podErr, p.placeVF(a.Device, c, plan))
}

// placeVF adds what the physical function sets of a virtual one.
func (p planner) placeVF(device string, c *v1alpha1.NetworkConfig, plan *Plan) error {
	var mac *string
	if plan.Pod != nil {
		mac = plan.Pod.Settings.MAC
	}
	was, want, err := vfPlan(c, p.facts.nics[device].vf, mac)
	plan.Host.VF = was
	if want == nil {
		return err
	}
	if plan.Stage == nil {
		plan.Stage = &Stage{}
	}
	plan.Stage.VF = want
	return err
}
