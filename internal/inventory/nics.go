// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/internal/host/sysfs"
	"plumbline.dev/plumbline/internal/model"
)

// withholdRefused withholds those of the NICs offered so far that the driver would
// refuse to every claim (Options.Refusals), and adds which eBPF programs are on them.
func (s *scan) withholdRefused() error {
	if err := s.withholdRefusedRDMA(); err != nil {
		return err
	}
	var indexes []int
	for _, n := range s.parts.NICs {
		if n.Withheld == nil && n.Interface != nil {
			indexes = append(indexes, n.Interface.Index)
		}
	}
	if s.opt.Refusals == nil || len(indexes) == 0 {
		return nil
	}
	refusals, programs, err := s.opt.Refusals(indexes)
	if err != nil {
		return fmt.Errorf("ask which NICs may leave the host: %w", err)
	}
	for i := range s.parts.NICs {
		n := &s.parts.NICs[i]
		if n.Withheld != nil || n.Interface == nil {
			continue
		}
		if p, known := programs[n.Interface.Index]; known {
			n.Interface.Programs = &p
		}
		if refused := refusals[n.Interface.Index]; refused != nil {
			reason := "cannot leave the host: " + strings.ReplaceAll(refused.Error(), "\n", "; ")
			n.Withheld = &reason
		}
	}
	return nil
}

// withholdRefusedRDMA is withholdRefused for RDMA devices with IPoIB interfaces, whether
// those stay on the host or go along.
func (s *scan) withholdRefusedRDMA() error {
	var asked []*model.NIC
	for i := range s.parts.NICs {
		n := &s.parts.NICs[i]
		if n.Withheld == nil && n.RDMA != nil && (n.RDMA.HostInterface != nil || n.IPoIB()) {
			asked = append(asked, n)
		}
	}
	if s.opt.RDMARefusals == nil || len(asked) == 0 {
		return nil
	}
	refusals, err := s.opt.RDMARefusals(asked)
	if err != nil {
		return fmt.Errorf("ask which RDMA devices may leave the host: %w", err)
	}
	for i := range s.parts.NICs {
		n := &s.parts.NICs[i]
		if n.Withheld != nil || n.RDMA == nil || refusals[n.RDMA.Name] == nil {
			continue
		}
		reason := "cannot leave the host: " + refusals[n.RDMA.Name].Error()
		n.Withheld = &reason
	}
	return nil
}

// candidate is a NIC being put together.
type candidate struct {
	model.NIC
	device   *string // the directory both its interface and its RDMA device hang from
	devPort  int
	portName string
}

// readNICs joins interfaces and RDMA devices to NICs.
func (s *scan) readNICs() {
	netDevices, problems := sysfs.ReadNetDevices(s.sys, s.skip)
	s.add(problems)
	var found []*candidate
	for _, d := range netDevices {
		if c := s.netCandidate(d); c != nil {
			found = append(found, c)
		}
	}
	found = s.joinRDMA(s.numberPorts(found))
	for _, c := range found {
		s.withholdPhysicalFunction(c)
		s.parts.NICs = append(s.parts.NICs, c.NIC)
	}
}

// withholdPhysicalFunction withholds a function that has virtual ones: its driver sets
// their links down with its own, and others may use them.
func (s *scan) withholdPhysicalFunction(c *candidate) {
	f := s.functionAt(c.PCI)
	if s.opt.PhysicalFunctions || c.Withheld != nil || f == nil || f.SRIOV == nil || f.SRIOV.NumVFs == 0 {
		return
	}
	reason := fmt.Sprintf("has virtual functions (sriov_numvfs is %d), whose links would go down with it: --allow-physical-functions offers it", f.SRIOV.NumVFs)
	c.Withheld, c.WithheldForVFs = &reason, true
}

// alwaysVirtual are the kinds of link that are never hardware.
var alwaysVirtual = []string{"veth", "dummy", "bridge", "macvlan", "macvtap", "ipvlan", "ipvtap", "vxlan", "geneve", "vlan", "tun", "ifb", "wireguard"}

// skip says whether an interface is a virtual one that Options.Virtual does not include,
// by netlink alone: a node has two for each pod, and each would cost eight files.
func (s *scan) skip(name string) bool {
	l, known := s.links[name]
	if !known || l.Kind == nil || !slices.Contains(alwaysVirtual, *l.Kind) {
		return false
	}
	return s.opt.Virtual == nil || !s.opt.Virtual(merged(sysfs.NetDevice{Name: name, Virtual: true}, sysfs.NetAttributes{}, l))
}

// netCandidate turns an interface into a NIC, or returns nil when it is none: loopback,
// a virtual one that Options.Virtual does not include, one that is gone meanwhile.
func (s *scan) netCandidate(d sysfs.NetDevice) *candidate {
	if d.Virtual && s.opt.Virtual == nil {
		return nil
	}
	link, known := s.links[d.Name]
	if s.links != nil && !known {
		if !d.Virtual {
			s.problem(d.Path, "interface left out: netlink does not know it, so it moved away meanwhile or /sys belongs to another network namespace")
		}
		return nil
	}
	attributes, problems := sysfs.ReadNetAttributes(s.sys, d)
	s.add(problems)
	iface := merged(d, attributes, link)
	if isLoopback(iface) || d.Virtual && !s.opt.Virtual(iface) {
		return nil
	}
	if attributes.PortName != nil && sysfs.IsRepresentor(*attributes.PortName) || s.keep(d, iface) {
		return nil
	}
	c := &candidate{NIC: model.NIC{Interface: &iface}, device: d.Device, devPort: orZero(attributes.DevPort)}
	if attributes.PortName != nil {
		c.portName = *attributes.PortName
	}
	if reason, ok := s.withheld[iface.Index]; ok {
		c.Withheld = &reason
	}
	if f := s.networkFunction(d); f != nil {
		c.PCI, c.NUMANode = &f.Address, f.NUMANode
	}
	return c
}

// keep says whether an interface stays on the host while pods get its RDMA device. It
// may be the node's uplink: the interface loses nothing.
func (s *scan) keep(d sysfs.NetDevice, i model.Interface) bool {
	if !s.opt.KeepIPoIB || d.Device == nil || i.Encapsulation == nil || *i.Encapsulation != "infiniband" {
		return false
	}
	if first, ok := s.kept[*d.Device]; !ok || i.Name < first {
		s.kept[*d.Device] = i.Name
	}
	return true
}

// networkFunction returns the PCI function an interface is: one of network
// class, or of any class where nothing lies between the two, as with
// accelerators that have ports. An interface behind a USB controller is not the
// controller.
func (s *scan) networkFunction(d sysfs.NetDevice) *model.PCIFunction {
	f := s.functionAt(d.PCI)
	if f == nil || f.ClassByte() != model.PCIClassNetwork && path.Base(*d.Device) != f.Address.String() {
		return nil
	}
	return f
}

func (s *scan) functionAt(address *model.PCIAddress) *model.PCIFunction {
	if address == nil {
		return nil
	}
	at, ok := s.functions[*address]
	if !ok {
		return nil
	}
	return &s.parts.Functions[at]
}

// numberPorts numbers the interfaces of one function by dev_port alone, so that a NIC's
// name does not depend on which of them are in this namespace at present.
func (s *scan) numberPorts(found []*candidate) []*candidate {
	slices.SortStableFunc(found, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(a.devPort, b.devPort), cmp.Compare(a.portName, b.portName),
			cmp.Compare(a.Interface.Index, b.Interface.Index))
	})
	type place struct {
		pci  model.PCIAddress
		port int
	}
	taken := map[place]string{}
	return slices.DeleteFunc(found, func(c *candidate) bool {
		if c.PCI == nil {
			return false
		}
		at := place{*c.PCI, c.devPort}
		if first, twice := taken[at]; twice {
			s.problem("class/net/"+c.Interface.Name, "interface left out: nothing tells it from %s of the same function %s, both say dev_port %d", first, c.PCI, c.devPort)
			return true
		}
		taken[at] = c.Interface.Name
		if c.devPort > 0 {
			port := "p" + strconv.Itoa(c.devPort)
			c.Port = &port
		}
		return false
	})
}

// merged is an interface from sysfs and netlink. Netlink wins: its values are of one
// point in time, those of the files of several.
func merged(d sysfs.NetDevice, a sysfs.NetAttributes, l LinkFacts) model.Interface {
	return model.Interface{
		Name:          d.Name,
		Index:         cmp.Or(l.Index, orZero(a.Index)),
		MAC:           cmp.Or(l.MAC, a.MAC),
		PermanentMAC:  l.PermanentMAC,
		MTU:           cmp.Or(l.MTU, a.MTU),
		Up:            l.Up,
		State:         cmp.Or(l.State, a.State),
		Encapsulation: cmp.Or(l.Encapsulation, encapsulation(a.Type)),
		Kind:          l.Kind,
		Alias:         cmp.Or(l.Alias, a.Alias),
		Virtual:       d.Virtual,
		SpeedMbps:     a.SpeedMbps,
		Addresses:     slices.Clone(l.Addresses),
	}
}

// encapsulation is the name of an ARPHRD number, as ip(8) prints it
// (include/uapi/linux/if_arp.h); nil for the many that no NIC has.
func encapsulation(arphrd *int) *string {
	if arphrd == nil {
		return nil
	}
	words := map[int]string{1: "ether", 32: "infiniband", 772: "loopback", 65534: "none"}
	word, ok := words[*arphrd]
	if !ok {
		return nil
	}
	return &word
}

func isLoopback(i model.Interface) bool {
	return i.Encapsulation != nil && *i.Encapsulation == "loopback" || i.Encapsulation == nil && i.Name == "lo"
}

func byName(links []LinkFacts) map[string]LinkFacts {
	m := make(map[string]LinkFacts, len(links))
	for _, l := range links {
		m[l.Name] = l
	}
	return m
}
