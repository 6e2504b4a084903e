// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"path"
	"slices"
	"strings"

	"plumbline.dev/plumbline/internal/host/sysfs"
	"plumbline.dev/plumbline/internal/model"
)

// joinRDMA gives each RDMA device to the interface it belongs to. One without
// an interface is a NIC of its own, whatever its PCI class.
func (s *scan) joinRDMA(found []*candidate) []*candidate {
	devices, problems := sysfs.ReadRDMADevices(s.sys)
	s.add(problems)
	for _, d := range devices {
		rdma := &model.RDMADevice{
			Name: d.Name, LinkLayer: d.LinkLayer, CharDevices: d.CharDevices, Software: d.NetDevice != nil,
		}
		owner, taken := owner(found, d, s.functionAt(d.PCI))
		switch {
		case owner != nil:
			owner.RDMA = rdma
		case taken != nil:
			s.problem("class/infiniband/"+d.Name, "RDMA device left out: %s has %s already", taken.Interface.Name, taken.RDMA.Name)
		case d.NetDevice == nil:
			found = append(found, s.withoutInterface(d, rdma))
		}
	}
	return found
}

// owner finds the interface of an RDMA device: the one it names, by its parent or, on the
// same function, by the GIDs of its ports; one of the same device; one of the same PCI
// function. taken is set where all that fit have an RDMA device already. Candidates
// come in the order of their ports, so one RDMA device for two ports belongs to the
// first.
func owner(found []*candidate, d sysfs.RDMADevice, f *model.PCIFunction) (free, taken *candidate) {
	onFunction := func(c *candidate) bool { return f != nil && c.PCI != nil && *c.PCI == f.Address }
	onDevice := func(c *candidate) bool { return d.Device != nil && c.device != nil && *c.device == *d.Device }
	for _, fits := range []func(*candidate) bool{
		func(c *candidate) bool { return d.NetDevice != nil && c.Interface.Name == *d.NetDevice },
		func(c *candidate) bool {
			// A port's interface may be in another namespace, and one of its name here.
			return slices.Contains(d.PortInterfaces, c.Interface.Name) && (onDevice(c) || onFunction(c) && !isSubfunction(d))
		},
		onDevice,
		func(c *candidate) bool { return onFunction(c) && !isSubfunction(d) },
	} {
		for _, c := range found {
			switch {
			case c.Interface == nil || !fits(c):
			case c.RDMA == nil:
				return c, nil
			case taken == nil:
				taken = c
			}
		}
	}
	return nil, taken
}

// isSubfunction says whether an RDMA device is of a part of a function that has its own
// interface (Documentation/networking/device_drivers/ethernet/mellanox/mlx5, Subfunction:
// mlx5_core.sf.N).
func isSubfunction(d sysfs.RDMADevice) bool {
	return d.Device != nil && strings.Contains(path.Base(*d.Device), ".sf.")
}

// rdmaAlone are the kernel drivers of functions that never have an interface.
// What they share a wire with is another function: an ENA beside EFA
// (drivers/infiniband/hw/efa), a virtio NIC beside eRDMA, which calls itself
// Ethernet (drivers/infiniband/hw/erdma).
var rdmaAlone = []string{"efa", "erdma"}

// withoutInterface is a NIC that is an RDMA device alone. An Ethernet one always has an
// interface: where this namespace does not show it, it is in another one, and the RDMA
// device is withheld.
func (s *scan) withoutInterface(d sysfs.RDMADevice, rdma *model.RDMADevice) *candidate {
	c := &candidate{NIC: model.NIC{RDMA: rdma}, device: d.Device}
	alone := false
	if f := s.functionAt(d.PCI); f != nil {
		c.PCI, c.NUMANode = &f.Address, f.NUMANode
		alone = f.Driver != nil && slices.Contains(rdmaAlone, *f.Driver)
	}
	if d.Device != nil {
		if kept, ok := s.kept[*d.Device]; ok {
			rdma.HostInterface = &kept
		}
	}
	if !alone && rdma.LinkLayer != nil && *rdma.LinkLayer == "Ethernet" {
		reason := "its network interface is in another network namespace"
		c.Withheld = &reason
	}
	return c
}
