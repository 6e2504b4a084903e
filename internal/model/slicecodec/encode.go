// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package slicecodec

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"plumbline.dev/plumbline/internal/model"
)

// Drivers lists plumbline's drivers, in the order of all lists of them.
func Drivers() []string { return []string{DriverNet, DriverCPU, DriverGPU} }

// Encode lists the devices of one driver, in the machine's order.
func Encode(m *model.Machine, driver string, cpus CPUOptions) []resourceapi.Device {
	devices, _ := Explain(m, driver, cpus)
	return devices
}

// Explain is Encode, with a line for all that was left out: a device that the API
// server would refuse, an attribute beyond its limits.
func Explain(m *model.Machine, driver string, cpus CPUOptions) ([]resourceapi.Device, []string) {
	l := list{names: map[string]bool{}}
	switch driver {
	case DriverNet:
		for _, n := range m.NICs {
			if n.Offered() {
				l.add(encodeNIC(m, n))
			}
			if n.HasTwin() {
				l.add(encodeTwin(m, n))
			}
		}
	case DriverCPU:
		for _, d := range CPUDevices(m, cpus) {
			l.add(encodeCPUs(m, d, cpus))
		}
	case DriverGPU:
		for _, g := range m.GPUs {
			l.add(encodeGPU(m, g))
		}
	default:
		return nil, nil
	}
	return l.devices, l.omitted
}

// list collects devices, without those that the API server would refuse together with
// their whole slice.
type list struct {
	devices []resourceapi.Device
	omitted []string
	names   map[string]bool
}

func (l *list) add(b *builder) {
	d := b.build()
	switch problems := validation.IsDNS1123Label(d.Name); {
	case len(problems) > 0:
		l.omitted = append(l.omitted, fmt.Sprintf("device %.80q: its name %s", d.Name, problems[0]))
		return
	case l.names[d.Name]:
		l.omitted = append(l.omitted, fmt.Sprintf("device %s: another one has this name", d.Name))
		return
	}
	l.names[d.Name] = true
	l.devices = append(l.devices, d)
	for _, o := range b.omitted {
		l.omitted = append(l.omitted, "device "+d.Name+": "+o)
	}
}

// EncodeNIC is the device of one NIC as if it were offered whole, whatever keeps it from that.
func EncodeNIC(m *model.Machine, n model.NIC) resourceapi.Device {
	n.Share = nil
	return encodeNIC(m, n).build()
}

// MaxDevices is the most devices a slice holds: the API's limit once any device
// of it carries a taint, kept from the start so that a taint never forces a
// new split.
const MaxDevices = resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures

// Split cuts a driver's devices into slices. No devices make one empty slice,
// which says "this driver is here and has nothing".
func Split(devices []resourceapi.Device) [][]resourceapi.Device {
	if len(devices) == 0 {
		return [][]resourceapi.Device{nil}
	}
	return slices.Collect(slices.Chunk(devices, MaxDevices))
}

// SharedCounters are the counter sets that devices consume of, cut as slices hold them: the
// API wants them in slices without devices (KEP-4815). Every set is one NIC, which is had
// whole, or in shares by as many as there are.
func SharedCounters(devices []resourceapi.Device) [][]resourceapi.CounterSet {
	var sets []resourceapi.CounterSet
	seen := map[string]bool{}
	for _, d := range devices {
		for _, c := range d.ConsumesCounters {
			if !seen[c.CounterSet] {
				seen[c.CounterSet] = true
				sets = append(sets, resourceapi.CounterSet{Name: c.CounterSet, Counters: c.Counters})
			}
		}
	}
	return slices.Collect(slices.Chunk(sets, resourceapi.ResourceSliceMaxCounterSets))
}
