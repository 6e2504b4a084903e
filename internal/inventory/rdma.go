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
	// Those that only manage, such as the planes of a port (drivers/infiniband/hw/mlx5/main.c,
	// mlx5_ib_add_sub_dev), come after those that can do verbs.
	var alone []*candidate
	for _, d := range firstThose(devices, hasVerbs) {
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
			alone = append(alone, s.withoutInterface(d, rdma))
		}
	}
	return append(found, s.onePerFunction(found, alone)...)
}

// onePerFunction are those RDMA devices without an interface that are a NIC. A NIC is
// called by its function, and two of one name would keep a node's whole slice from being
// published: where the function has an interface, or an RDMA device before this one, this
// one is left out. The function's own come before those of its parts.
func (s *scan) onePerFunction(found, alone []*candidate) []*candidate {
	taken := map[model.PCIAddress]string{}
	for _, c := range found {
		if c.PCI != nil && c.Port == nil {
			taken[*c.PCI] = c.Interface.Name
		}
	}
	alone = firstThose(alone, func(c *candidate) bool { return !isPart(c.device) })
	return slices.DeleteFunc(alone, func(c *candidate) bool {
		if c.PCI == nil {
			return false
		}
		first, twice := taken[*c.PCI]
		if twice {
			s.problem("class/infiniband/"+c.RDMA.Name, "RDMA device left out: its function %s is that of %s already", c.PCI, first)
		} else {
			taken[*c.PCI] = c.RDMA.Name
		}
		return twice
	})
}

// firstThose are the elements of a list with those first that fit, each in their order.
func firstThose[T any](list []T, fits func(T) bool) []T {
	var first, others []T
	for _, e := range list {
		if fits(e) {
			first = append(first, e)
		} else {
			others = append(others, e)
		}
	}
	return append(first, others...)
}

func hasVerbs(d sysfs.RDMADevice) bool {
	return slices.ContainsFunc(d.CharDevices, func(f string) bool { return strings.HasPrefix(path.Base(f), "uverbs") })
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
			return slices.Contains(d.PortInterfaces, c.Interface.Name) && (onDevice(c) || onFunction(c) && !isPart(d.Device))
		},
		onDevice,
		func(c *candidate) bool { return onFunction(c) && !isPart(d.Device) },
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

// isPart says whether a device is a part of a function that has its own interface
// (Documentation/networking/device_drivers/ethernet/mellanox/mlx5, Subfunction:
// mlx5_core.sf.N).
func isPart(device *string) bool {
	return device != nil && strings.Contains(path.Base(*device), ".sf.")
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
