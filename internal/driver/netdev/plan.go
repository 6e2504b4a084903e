// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// planner decides about one claim. It reads the host only through state.
type planner struct {
	claim  driver.Claim
	held   []driver.Record
	m      *model.Machine
	bootID string
	// rdmaCM says that the host has /dev/infiniband/rdma_cm.
	rdmaCM bool
	// state reads the host's side of a NIC.
	state func(model.NIC) (*HostState, error)
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
	names, err := p.namesInPods()
	if err != nil {
		return driver.Record{}, fmt.Errorf("claim %s: %w", p.claim.ClaimRef, err)
	}
	taken := map[string]bool{}
	var errs []error
	for _, a := range p.claim.Devices {
		d, err := p.device(a, names, taken)
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

// device plans one allocation. names are the interfaces that the pod has or
// will have, by whom; taken are the devices planned before.
func (p planner) device(a driver.Allocation, names map[string]string, taken map[string]bool) (driver.DeviceRecord, error) {
	nic := slicecodec.FindNIC(p.m, a.Device)
	if nic == nil {
		return driver.DeviceRecord{}, errors.New("this node has no such NIC")
	}
	d := driver.DeviceRecord{Request: a.Request, Pool: a.Pool, Device: a.Device, AdminAccess: a.AdminAccess}
	plan := Plan{NIC: *nic}
	if !a.AdminAccess {
		if err := p.mayTake(a, nic, taken); err != nil {
			return driver.DeviceRecord{}, err
		}
		taken[a.Device] = true
		if err := p.placement(a, &plan); err != nil {
			return driver.DeviceRecord{}, err
		}
		d.Edits = edits(nic.RDMA, p.rdmaCM)
	}
	if plan.Pod != nil {
		if by, used := names[plan.Pod.Name]; used {
			return driver.DeviceRecord{}, fmt.Errorf("interface.name: %q is in the pod already, %s: give each its own name",
				plan.Pod.Name, by)
		}
		names[plan.Pod.Name] = "for device " + a.Device
	}
	var err error
	d.Plan, err = json.Marshal(plan)
	return d, err
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
				return fmt.Errorf("claim %s holds it", r.Claim)
			}
		}
	}
	return nil
}

// placement plans the interface, where the NIC has one.
func (p planner) placement(a driver.Allocation, plan *Plan) error {
	config, err := configOf(a.Configs)
	if err != nil {
		return err
	}
	if plan.NIC.Interface == nil {
		if !isEmpty(config) {
			return errors.New("parameters: an RDMA device without a network interface takes none")
		}
		return nil
	}
	if err := refuseUnapplied(config); err != nil {
		return err
	}
	if err := p.checkMTU(plan.NIC, config); err != nil {
		return err
	}
	plan.Host, err = p.state(plan.NIC)
	if err == nil {
		err = plan.Host.inherit(p.held)
	}
	if err != nil {
		return err
	}
	plan.Pod, err = podState(config, plan.Host)
	return err
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

// namesInPods are the interface names that are taken in the claim's pods, and
// by whom.
func (p planner) namesInPods() (map[string]string, error) {
	names := map[string]string{"eth0": "from the cluster's network"}
	mine := map[driver.PodRef]bool{}
	for _, pod := range p.claim.Pods {
		mine[pod] = true
	}
	for _, r := range p.held {
		shared := false
		for _, pod := range r.Pods {
			shared = shared || mine[pod]
		}
		if !shared || r.Claim.UID == p.claim.UID {
			continue
		}
		for _, d := range r.Devices {
			plan, err := ReadPlan(d)
			if err != nil {
				return nil, fmt.Errorf("held claim %s: %w", r.Claim, err)
			}
			if plan.Pod != nil {
				names[plan.Pod.Name] = "from claim " + r.Claim.String()
			}
		}
	}
	return names, nil
}

// edits are the character devices of an RDMA device: its verbs, and the
// connection manager where the host has one. Management devices (umad, issm)
// can reconfigure the fabric, and stay outside. A software device has none to
// give: it is gone once its interface has moved, before any container starts.
func edits(rdma *model.RDMADevice, rdmaCM bool) driver.Edits {
	var e driver.Edits
	if rdma == nil || rdma.Software {
		return e
	}
	for _, p := range rdma.CharDevices {
		if strings.HasPrefix(path.Base(p), "uverbs") {
			e.DeviceNodes = append(e.DeviceNodes, driver.DeviceNode{Path: p, Permissions: "rw"})
		}
	}
	if rdmaCM {
		e.DeviceNodes = append(e.DeviceNodes, driver.DeviceNode{Path: "/dev/infiniband/rdma_cm", Permissions: "rw"})
	}
	return e
}
