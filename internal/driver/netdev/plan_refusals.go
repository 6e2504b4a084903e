// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"errors"
	"fmt"
	"strings"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev/hoststate"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// isOf says whether a device of a record is a NIC, or its twin.
func isOf(d driver.DeviceRecord, nic *model.NIC) bool {
	return d.Device == slicecodec.NICName(*nic) || d.Device == slicecodec.TwinName(*nic)
}

// mayTake refuses what must not be taken from the host or from another claim.
func (p planner) mayTake(a driver.Allocation, nic *model.NIC, taken map[string]bool) error {
	name := slicecodec.NICName(*nic)
	whole := a.ShareID == nil
	isTwin := a.Device != name
	switch {
	case taken[key(a, nic)]:
		return errors.New("the claim lists it twice")
	case taken[name] || whole && anyStartsWith(taken, name+"/"):
		return errors.New("the claim has the NIC whole and a share of it: want one of them")
	case !whole:
		return p.mayShare(a, nic)
	case nic.Withheld != nil:
		return fmt.Errorf("%s is not offered: it %s", nic, *nic.Withheld)
	case isTwin && (nic.Share == nil || !nic.Share.AlsoExclusive):
		return fmt.Errorf("%s is not offered both whole and in shares any more: delete the claim, so that it is allocated anew", nic)
	case !isTwin && nic.Share != nil:
		return fmt.Errorf("%s is shared, and the claim was allocated all of it: delete the claim, so that it is allocated anew", nic)
	}
	return p.isFree(nic)
}

// isFree refuses a NIC that another claim has, whole or a share of it.
func (p planner) isFree(nic *model.NIC) error {
	for _, d := range p.held {
		if isOf(d.DeviceRecord, nic) && !d.AdminAccess && d.claim.UID != p.claim.UID {
			return driver.HeldError{Err: fmt.Errorf("claim %s holds it", d.claim)}
		}
	}
	return nil
}

func anyStartsWith(keys map[string]bool, prefix string) bool {
	for key := range keys {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// refuseChild refuses to put a link of the pod's own on a NIC that it has whole.
func refuseChild(c *v1alpha1.NetworkConfig) error {
	if t := c.Interface.Type; t != nil && *t != v1alpha1.TypePassthrough {
		return fmt.Errorf("interface.type: %q: is of NICs that are shared, and the claim was allocated a whole one: want class %s, or leave it out", *t, slicecodec.ClassShared)
	}
	return nil
}

// refuseIPoIB refuses to move an RDMA device with its IPoIB interface: the kernel ends the
// interface as the device leaves the host, and makes another one in the pod, which
// would have nothing of what the claim asks for (drivers/infiniband/ulp/ipoib/ipoib_main.c,
// ipoib_remove_one).
func refuseIPoIB(plan *Plan) error {
	if plan.RDMA == nil || !plan.RDMA.Exclusive || !plan.NIC.IPoIB() {
		return nil
	}
	return endOf(&plan.NIC)
}

// endOf is what becomes of the IPoIB interface of an RDMA device that leaves the host.
func endOf(nic *model.NIC) error {
	return fmt.Errorf("RDMA device %s: its IPoIB interface %s would end with the move of the device: want a node in mode shared (rdma system set netns shared)",
		nic.RDMA.Name, nic.Interface.Name)
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

// lossOf is what the host would lose with an RDMA device that has an interface on it.
func lossOf(d *model.RDMADevice) error {
	return fmt.Errorf("RDMA device %s: the host would lose interface %s, which --move-ib-interfaces=false leaves there: want a node in mode shared (rdma system set netns shared)",
		d.Name, *d.HostInterface)
}

// keepPrograms sets the key under which eBPF programs are held: those that the move
// loses, that the configuration detaches, and that a pod may detach.
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
