// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package pcie

import (
	"fmt"
	"slices"

	"plumbline.dev/plumbline/lab/vm/shape"
)

// builder collects the QEMU devices of a plan.
type builder struct {
	machine string
	standIn StandIn
	// taken are the used slots of bus 00.
	taken      map[int]bool
	pxbs       []Device
	devices    []Device
	extras     []Device
	deviations []string
	ports      int
	windows    int
}

// takenOn returns the slots of the root's bus that the machine cannot use:
// bus 00 has the chipset's devices and the lab's own.
func (b *builder) takenOn(root shape.Root) map[int]bool {
	if root.Bus == 0 {
		return b.taken
	}
	return nil
}

// slot takes the lowest free slot of bus 00.
func (b *builder) slot(who string) (int, error) {
	for slot := range 32 {
		if !b.taken[slot] {
			b.taken[slot] = true
			return slot, nil
		}
	}
	return 0, &Refusal{b.machine, "", "bus 00 has no slot left for " + who}
}

// root adds one root bus and all below it.
func (b *builder) root(s *shape.Shape, root shape.Root, tree *branch) error {
	bus := "pcie.0"
	if root.Bus == 0 {
		for _, d := range tree.functions {
			slot := int(d.Address.Device)
			if slot == 0 || slot == 0x1f {
				return &Refusal{b.machine, d.String(), "QEMU's q35 has devices of its own at 0000:00:00.0 and 0000:00:1f"}
			}
			b.taken[slot] = true
		}
		for _, p := range tree.ports {
			b.taken[p.slot] = true
		}
	} else {
		if len(tree.functions) > 0 {
			// hw/pci/pci.c, do_pci_register_device.
			return &Refusal{b.machine, tree.functions[0].String(), fmt.Sprintf("it sits on root bus %s itself, and QEMU lets nothing but bridges sit on a root bus other than pci0000:00", root.Name())}
		}
		bus = fmt.Sprintf("root%02x", root.Bus)
		pxb := Device{Driver: "pxb-pcie", ID: bus}
		pxb.set("bus_nr", fmt.Sprintf("0x%02x", root.Bus))
		if root.Node != nil {
			pxb.set("numa_node", fmt.Sprint(nodeIndex(s, *root.Node)))
		}
		b.pxbs = append(b.pxbs, pxb)
	}
	b.functions(bus, int(root.Bus), tree.functions)
	for _, p := range tree.ports {
		b.port("pcie-root-port", bus, p)
	}
	return nil
}

// nodeIndex is the number QEMU gives the NUMA node: its place among the nodes.
func nodeIndex(s *shape.Shape, id int) int {
	for i, n := range s.Nodes {
		if n.ID == id {
			return i
		}
	}
	return id
}

// port adds a bridge, the switch behind it if there is one, and functions.
func (b *builder) port(driver, on string, p port) {
	b.ports++
	d := Device{Driver: driver, ID: fmt.Sprintf("port%02x", p.bus)}
	place(&d, on, p.slot, 0)
	d.set("chassis", fmt.Sprint(b.ports))
	// Nothing is plugged in at run time; a port that could take a plug would
	// make firmware set address space aside.
	d.set("hotplug", "off")
	if p.reserve > 0 {
		d.set("bus-reserve", fmt.Sprint(p.reserve))
	}
	b.devices = append(b.devices, d)
	switch {
	case p.inner != nil:
		up := Device{Driver: "x3130-upstream", ID: fmt.Sprintf("switch%02x", p.bus)}
		place(&up, d.ID, 0, 0)
		b.devices = append(b.devices, up)
		for _, inner := range p.inner.ports {
			b.port("xio3130-downstream", up.ID, inner)
		}
	case len(p.functions) == 0:
		b.deviations = append(b.deviations, fmt.Sprintf("an empty port takes bus numbers %02x-%02x, so that the next ones match", p.bus, p.bus+p.reserve))
	default:
		b.functions(d.ID, p.bus, p.functions)
		for _, f := range p.functions {
			if f.Kind == shape.NIC {
				b.windows++
				break
			}
		}
	}
}

// functions adds the functions of one bus, in the order of their addresses.
func (b *builder) functions(on string, bus int, functions []shape.Device) {
	several := map[uint8]bool{}
	first := map[uint8]bool{}
	for _, f := range functions {
		several[f.Address.Device] = several[f.Address.Device] || f.Address.Function > 0
		first[f.Address.Device] = first[f.Address.Device] || f.Address.Function == 0
	}
	for _, f := range functions {
		slot := int(f.Address.Device)
		if !first[f.Address.Device] {
			// A guest looks for further functions only behind function 0.
			first[f.Address.Device] = true
			d := Device{Driver: "pci-testdev"}
			place(&d, on, slot, 0)
			d.set("multifunction", "on")
			b.devices = append(b.devices, d)
			b.deviations = append(b.deviations, fmt.Sprintf("a placeholder is function 0 of %04x:%02x:%02x, which the machine file leaves out", 0, bus, slot))
		}
		d := b.standIn(f)
		place(&d, on, slot, int(f.Address.Function))
		if several[f.Address.Device] && f.Address.Function == 0 {
			d.set("multifunction", "on")
		}
		b.devices = append(b.devices, d)
	}
}

func place(d *Device, bus string, slot, function int) {
	d.Props = append([]Prop{{"bus", bus}, {"addr", fmt.Sprintf("%02x.%x", slot, function)}}, d.Props...)
}

// plan puts the pieces in order.
func (b *builder) plan() (*Plan, error) {
	if b.windows > ioBridges {
		return nil, &Refusal{b.machine, "", fmt.Sprintf("its NICs sit behind %d PCIe ports, and x86 I/O space has room for %d (every e1000e wants an I/O window)", b.windows, ioBridges)}
	}
	p := &Plan{Deviations: b.deviations}
	// QEMU describes expander bridges to the guest last first (bus_list in
	// hw/i386/acpi-build.c), and the guest numbers /dev/dri/cardN in the order
	// it finds them: the other way round here gives the machine's order there.
	for _, d := range slices.Backward(b.pxbs) {
		slot, err := b.slot(d.ID)
		if err != nil {
			return nil, err
		}
		place(&d, "pcie.0", slot, 0)
		p.Devices = append(p.Devices, d)
	}
	p.Devices = append(append(p.Devices, b.devices...), b.extras...)
	return p, nil
}
