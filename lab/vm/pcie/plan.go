// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package pcie

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"plumbline.dev/plumbline/lab/vm/shape"
)

// StandIn turns a device of the machine into the QEMU device that stands in
// for it, without bus and address.
type StandIn func(shape.Device) Device

// Plan is the PCI part of a QEMU command line.
type Plan struct {
	// Devices are in an order QEMU accepts: bridges before what hangs below.
	Devices []Device
	// Deviations lists in words what was added to the machine.
	Deviations []string
}

// The devices q35 itself has on bus 00: host bridge and ICH9.
var q35Slots = []int{0x00, 0x1f}

// ioBridges is how many PCIe ports with an I/O window firmware can place in x86
// I/O space, at 4 KiB each: a guest with 12 boots, one with 15 does not (seen).
const ioBridges = 12

// New plans the machine. extras are the lab's own devices (console, management
// NIC); they go to bus 00, wherever the machine has nothing.
func New(s *shape.Shape, standIn StandIn, extras []Device) (*Plan, error) {
	if err := buildable(s); err != nil {
		return nil, err
	}
	devices, err := byRoot(s)
	if err != nil {
		return nil, err
	}
	b := &builder{machine: s.Name, standIn: standIn, taken: map[int]bool{}}
	for _, slot := range q35Slots {
		b.taken[slot] = true
	}
	roots := slices.SortedFunc(slices.Values(s.Roots), func(a, b shape.Root) int { return cmp.Compare(a.Bus, b.Bus) })
	last := 0
	for i, root := range roots {
		if i > 0 && int(root.Bus) <= last {
			return nil, &Refusal{s.Name, "root " + root.Name(), fmt.Sprintf("buses up to %02x already belong to root %s", last, roots[i-1].Name())}
		}
		l := &layouter{machine: s.Name, root: root}
		tree, err := l.layout(devices[root.Name()], b.takenOn(root))
		if err != nil {
			return nil, err
		}
		last = l.last
		if err := b.root(s, root, tree); err != nil {
			return nil, err
		}
	}
	for _, d := range extras {
		slot, err := b.slot(d.Driver)
		if err != nil {
			return nil, err
		}
		place(&d, "pcie.0", slot, 0)
		b.extras = append(b.extras, d)
	}
	return b.plan()
}

// byRoot sorts the machine's devices by root and checks that addresses differ.
func byRoot(s *shape.Shape) (map[string][]shape.Device, error) {
	known := map[string]bool{}
	for _, r := range s.Roots {
		known[r.Name()] = true
	}
	seen := map[string]shape.Device{}
	out := map[string][]shape.Device{}
	for _, d := range s.Devices {
		if !known[d.Root] {
			return nil, &Refusal{s.Name, d.String(), fmt.Sprintf("its root %s is not among the machine's roots", d.Root)}
		}
		if other, ok := seen[d.Address.String()]; ok {
			return nil, &Refusal{s.Name, d.String(), fmt.Sprintf("it is the same function as %s, and QEMU's devices have one interface a function", other.Name)}
		}
		seen[d.Address.String()] = d
		out[d.Root] = append(out[d.Root], d)
	}
	return out, nil
}

// Device is one -device argument.
type Device struct {
	// Driver is QEMU's name of the device model.
	Driver string
	// ID names it for other devices.
	ID string
	// Props are its further properties, in the order they are written.
	Props []Prop
}

// Prop is one property of a device.
type Prop struct{ Key, Value string }

// String is the value of the -device argument.
func (d Device) String() string {
	var b strings.Builder
	b.WriteString(d.Driver)
	if d.ID != "" {
		b.WriteString(",id=" + d.ID)
	}
	for _, p := range d.Props {
		// A comma ends a value unless doubled (QEMU, util/keyval.c).
		b.WriteString("," + p.Key + "=" + strings.ReplaceAll(p.Value, ",", ",,"))
	}
	return b.String()
}

func (d *Device) set(key, value string) { d.Props = append(d.Props, Prop{key, value}) }
