// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package pcie

import (
	"cmp"
	"fmt"
	"slices"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/lab/vm/shape"
)

// branch is what hangs from one bus: functions, then ports to further buses.
type branch struct {
	bus       int
	functions []shape.Device
	ports     []port
}

// port is a bridge with one bus behind it.
type port struct {
	// slot is the port's device number on its bus.
	slot int
	// bus is its secondary bus.
	bus int
	// reserve is how many further bus numbers firmware shall skip for it.
	reserve int
	// functions sit on the secondary bus; none where the port only counts.
	functions []shape.Device
	// inner is set on a port that leads to a switch: the switch's internal
	// bus.
	inner *branch
}

// layouter places the devices of one root.
type layouter struct {
	machine string
	root    shape.Root
	last    int // highest bus number given so far
}

func (l *layouter) refuse(what, why string, args ...any) error {
	return &Refusal{Machine: l.machine, What: what, Why: fmt.Sprintf(why, args...)}
}

// layout arranges the root's devices so that firmware's count comes out right.
// taken are slots of the root bus used by something else.
func (l *layouter) layout(devices []shape.Device, taken map[int]bool) (*branch, error) {
	devices = slices.SortedFunc(slices.Values(devices), func(a, b shape.Device) int { return a.Address.Compare(b.Address) })
	byBus := map[int][]shape.Device{}
	for _, d := range devices {
		byBus[int(d.Address.Bus)] = append(byBus[int(d.Address.Bus)], d)
	}
	top := &branch{bus: int(l.root.Bus), functions: byBus[int(l.root.Bus)]}
	delete(byBus, top.bus)
	for bus, on := range byBus {
		if bus < top.bus {
			return nil, l.refuse(on[0].String(), "its bus %02x is below its root %s, and firmware only counts upwards", bus, l.root.Name())
		}
	}
	l.last = top.bus
	below := map[int][]shape.Device{}
	if l.root.SwitchUp != nil {
		if err := l.splitSwitch(*l.root.SwitchUp, byBus, below); err != nil {
			return nil, err
		}
	}
	slots := freeSlots(top.functions, taken)
	for _, bus := range sortedKeys(byBus) {
		if err := l.addPort(top, bus, byBus[bus], true, &slots); err != nil {
			return nil, err
		}
		if l.root.SwitchUp != nil && bus == int(l.root.SwitchUp.Bus) {
			inner, err := l.layoutSwitch(bus, below)
			if err != nil {
				return nil, err
			}
			top.ports[len(top.ports)-1].inner = inner
		}
	}
	return top, nil
}

// splitSwitch moves the buses behind the switch from byBus to below, and
// leaves the bus of its upstream port in byBus, empty.
func (l *layouter) splitSwitch(up model.PCIAddress, byBus, below map[int][]shape.Device) error {
	bus := int(up.Bus)
	switch {
	case bus <= int(l.root.Bus) || up.Domain != l.root.Domain:
		return l.refuse("switch at "+up.String(), "its upstream port is not behind a port of root %s", l.root.Name())
	case up.Device != 0:
		return l.refuse("switch at "+up.String(), "a switch's upstream port is device 00 of its bus")
	case len(byBus[bus]) > 0:
		return l.refuse(byBus[bus][0].String(), "bus %02x belongs to the upstream port of the switch at %s", bus, up)
	case len(byBus[bus+1]) > 0:
		return l.refuse(byBus[bus+1][0].String(), "bus %02x is the switch's internal bus, which holds nothing but its ports", bus+1)
	}
	for b, on := range byBus {
		if b > bus {
			below[b] = on
			delete(byBus, b)
		}
	}
	byBus[bus] = nil
	return nil
}

// layoutSwitch arranges the ports below a switch whose upstream port is on bus.
func (l *layouter) layoutSwitch(bus int, below map[int][]shape.Device) (*branch, error) {
	inner := &branch{bus: bus + 1}
	l.last = inner.bus
	slots := freeSlots(nil, nil)
	for _, b := range sortedKeys(below) {
		if err := l.addPort(inner, b, below[b], false, &slots); err != nil {
			return nil, err
		}
	}
	return inner, nil
}

// addPort adds a port whose secondary bus is bus, with what firmware needs to
// count up to it. canReserve is set where ports can claim several numbers at
// once (pcie-root-port); a switch's ports claim one each.
func (l *layouter) addPort(on *branch, bus int, functions []shape.Device, canReserve bool, slots *[]int) error {
	for _, d := range functions {
		if d.Address.Device != 0 {
			return l.refuse(d.String(), "behind a PCIe port only device 00 exists, and it is device %02x of bus %02x", d.Address.Device, bus)
		}
	}
	add := func(p port) error {
		if len(*slots) == 0 {
			return l.refuse(fmt.Sprintf("bus %02x", bus), "no free slot is left on bus %02x for the port that leads to it", on.bus)
		}
		p.slot, *slots = (*slots)[0], (*slots)[1:]
		on.ports = append(on.ports, p)
		l.last = p.bus + p.reserve
		return nil
	}
	for gap := bus - l.last - 1; gap > 0; gap = bus - l.last - 1 {
		filler := port{bus: l.last + 1}
		if canReserve {
			filler.reserve = gap - 1
		}
		if err := add(filler); err != nil {
			return err
		}
	}
	return add(port{bus: bus, functions: functions})
}

// freeSlots lists the unused device numbers of a bus, ascending: firmware
// numbers bridges in this order.
func freeSlots(functions []shape.Device, taken map[int]bool) []int {
	used := map[int]bool{}
	for _, d := range functions {
		used[int(d.Address.Device)] = true
	}
	var free []int
	for slot := range 32 {
		if !used[slot] && !taken[slot] {
			free = append(free, slot)
		}
	}
	return free
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
