// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package slicecodec

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/model"
)

// CPUMode is which CPUs one device of dra.cpu has.
type CPUMode string

// The modes. The empty one is PerNUMANode.
const (
	PerNUMANode  CPUMode = "numanode"
	PerSocket    CPUMode = "socket"
	WholeMachine CPUMode = "machine"
	// SingleCPUs lets the scheduler choose each CPU; in the others it chooses how
	// many, and the driver which.
	SingleCPUs CPUMode = "individual"
)

// CPUOptions say how a machine's CPUs are offered. The zero value offers all of
// them, by NUMA node.
type CPUOptions struct {
	Mode CPUMode
	// Reserved CPUs are in no device.
	Reserved cpuset.CPUSet
	// ReservedPerNUMA is how many CPUs of each NUMA node are reserved at least:
	// its first cores, those of Reserved among them.
	ReservedPerNUMA int
	// PCIeRoots publishes the PCIe roots near to a group as a list attribute, which
	// needs the cluster's feature gate DRAListTypeAttributes.
	PCIeRoots bool
}

// CPUDevice is one device of dra.cpu.
type CPUDevice struct {
	Name string
	// NUMANode and Socket are nil where the device is not of one alone.
	NUMANode, Socket *int
	// CPU is the one that the device is; nil of a group.
	CPU *model.CPU
	// CPUs can be given to claims.
	CPUs cpuset.CPUSet
	// Nodes are the NUMA nodes that the CPUs are of, whose memory lies beside
	// them.
	Nodes []int
}

// String names the device in messages.
func (d *CPUDevice) String() string {
	switch {
	case d.CPU != nil:
		return fmt.Sprintf("CPU %d", d.CPU.ID)
	case d.Name == machineName:
		return "the machine"
	case strings.HasPrefix(d.Name, numaPrefix) && d.NUMANode != nil:
		return fmt.Sprintf("NUMA node %d", *d.NUMANode)
	case d.Socket != nil:
		return fmt.Sprintf("socket %d", *d.Socket)
	}
	return d.Name
}

// Names of devices: machineName is that of WholeMachine, numbers of three digits
// and more follow the others.
const (
	machineName  = "cpudevmachine"
	numaPrefix   = "cpudevnuma"
	socketPrefix = "cpudevsocket"
	singlePrefix = "cpudev"
)

// CPUGroupName is the device name of a NUMA node's CPUs, such as
// "cpudevnuma000".
func CPUGroupName(node int) string { return fmt.Sprintf("%s%03d", numaPrefix, node) }

// CPUDevices are the devices of dra.cpu with a CPU that is not reserved, in the order in
// which the scheduler tries them. Names are by the kernel's numbers, so that they do not
// change with other options or with CPUs going offline.
func CPUDevices(m *model.Machine, o CPUOptions) []CPUDevice {
	return cpuDevices(m, o, func(string) bool { return true })
}

// FindCPUDevice returns the device of a name, of whatever mode, or nil: a claim
// may have been allocated before the mode was changed.
func FindCPUDevice(m *model.Machine, o CPUOptions, name string) *CPUDevice {
	switch {
	case name == machineName:
		o.Mode = WholeMachine
	case strings.HasPrefix(name, numaPrefix):
		o.Mode = PerNUMANode
	case strings.HasPrefix(name, socketPrefix):
		o.Mode = PerSocket
	default:
		o.Mode = SingleCPUs
	}
	for _, d := range cpuDevices(m, o, func(n string) bool { return n == name }) {
		return &d
	}
	return nil
}

// cpuDevices are those of CPUDevices whose names are wanted.
func cpuDevices(m *model.Machine, o CPUOptions, wanted func(name string) bool) []CPUDevice {
	reserved := ReservedCPUs(m, o)
	var free []model.CPU
	for _, c := range m.CPUs {
		if c.Online && !reserved.Contains(c.ID) {
			free = append(free, c)
		}
	}
	var group func(model.CPU) (key int, ok bool)
	var name func(key int) string
	switch cmp.Or(o.Mode, PerNUMANode) {
	case PerSocket:
		group = func(c model.CPU) (int, bool) {
			if c.Core == nil {
				return 0, false
			}
			return c.Core.Package, true
		}
		name = func(socket int) string { return fmt.Sprintf("%s%03d", socketPrefix, socket) }
	case WholeMachine:
		group, name = func(model.CPU) (int, bool) { return 0, true }, func(int) string { return machineName }
	case SingleCPUs:
		return singleCPUs(free, wanted)
	default:
		group = func(c model.CPU) (int, bool) {
			if c.NUMANode == nil {
				return 0, false
			}
			return *c.NUMANode, true
		}
		name = CPUGroupName
	}
	return cpuGroups(free, group, name, wanted)
}

// ReservedCPUs are the CPUs that no claim gets.
func ReservedCPUs(m *model.Machine, o CPUOptions) cpuset.CPUSet {
	reserved := o.Reserved
	if o.ReservedPerNUMA <= 0 {
		return reserved
	}
	here := map[int]int{}
	cpus := byCore(m.CPUs)
	for _, c := range cpus {
		if c.Online && c.NUMANode != nil && reserved.Contains(c.ID) {
			here[*c.NUMANode]++
		}
	}
	var more []int
	for _, c := range cpus {
		if c.Online && c.NUMANode != nil && !reserved.Contains(c.ID) && here[*c.NUMANode] < o.ReservedPerNUMA {
			here[*c.NUMANode]++
			more = append(more, c.ID)
		}
	}
	return reserved.Union(cpuset.New(more...))
}

// cpuGroups makes a device of the CPUs for which group returns the same number, where
// its name is wanted.
func cpuGroups(cpus []model.CPU, group func(model.CPU) (int, bool), name func(int) string, wanted func(string) bool) []CPUDevice {
	members := map[int][]model.CPU{}
	for _, c := range cpus {
		if k, ok := group(c); ok {
			members[k] = append(members[k], c)
		}
	}
	var devices []CPUDevice
	for _, k := range slices.Sorted(maps.Keys(members)) {
		if n := name(k); wanted(n) {
			devices = append(devices, newCPUDevice(n, members[k]))
		}
	}
	return devices
}

func newCPUDevice(name string, cpus []model.CPU) CPUDevice {
	nodes, sockets := map[int]bool{}, map[int]bool{}
	var ids []int
	placed, packaged := 0, 0
	for _, c := range cpus {
		ids = append(ids, c.ID)
		if c.NUMANode != nil {
			nodes[*c.NUMANode] = true
			placed++
		}
		if c.Core != nil {
			sockets[c.Core.Package] = true
			packaged++
		}
	}
	d := CPUDevice{Name: name, CPUs: cpuset.New(ids...)}
	for node := range nodes {
		d.Nodes = append(d.Nodes, node)
	}
	slices.Sort(d.Nodes)
	if placed == len(cpus) {
		d.NUMANode = only(nodes)
	}
	if packaged == len(cpus) {
		d.Socket = only(sockets)
	}
	return d
}

// singleCPUs lists CPUs whose names are wanted, in an order in which CPUs of one core,
// cache and node follow each other, since the scheduler takes the first that fit.
func singleCPUs(cpus []model.CPU, wanted func(string) bool) []CPUDevice {
	name := func(c model.CPU) string { return fmt.Sprintf("%s%03d", singlePrefix, c.ID) }
	cpus = slices.DeleteFunc(cpus, func(c model.CPU) bool { return !wanted(name(c)) })
	var devices []CPUDevice
	for _, c := range byCore(cpus) {
		d := newCPUDevice(name(c), []model.CPU{c})
		d.CPU = &c
		devices = append(devices, d)
	}
	return devices
}

// byCore orders CPUs by NUMA node, L3 and core; what is unknown comes last. A
// core comes where its lowest CPU would.
func byCore(cpus []model.CPU) []model.CPU {
	first := map[model.CoreID]int{}
	core := func(c model.CPU) int {
		if c.Core == nil {
			return c.ID
		}
		return first[*c.Core]
	}
	for _, c := range cpus {
		if c.Core == nil {
			continue
		}
		if id, known := first[*c.Core]; !known || c.ID < id {
			first[*c.Core] = c.ID
		}
	}
	return slices.SortedFunc(slices.Values(cpus), func(a, b model.CPU) int {
		return cmp.Or(compareKnown(a.NUMANode, b.NUMANode), compareKnown(a.L3, b.L3), cmp.Compare(core(a), core(b)), cmp.Compare(a.ID, b.ID))
	})
}

func compareKnown(a, b *int) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return cmp.Compare(*a, *b)
}

// only returns the set's single member, or nil.
func only(set map[int]bool) *int {
	if len(set) != 1 {
		return nil
	}
	for v := range set {
		return &v
	}
	return nil
}
