// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package slicecodec

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/model"
)

// Node is a node as its slices describe it. Bridges, CPU cores and distances, which a
// scan has, are not published.
type Node struct {
	Machine   *model.Machine
	CPUGroups []CPUGroup
	// Parts are the devices that are partitions of a GPU (MIG), or the GPU in another
	// form, such as for a virtual machine: a claim that holds a part holds some of the
	// GPU. Machine has the PCI function of each, and the GPU itself only where that is
	// offered as well.
	Parts map[model.DeviceID]Part
	// Notes say in a line each which published devices Machine lacks.
	Notes []string
}

// Part is a device that is a part of a GPU, or the GPU in another form.
type Part struct {
	// PCI is the GPU's function.
	PCI model.PCIAddress
	// MIG is set of a part of one of NVIDIA's GPUs.
	MIG *MIG
	// VFIO: it is the GPU as a whole, for a virtual machine.
	VFIO bool
	// Made says that the part is there now, whether a claim has it or not. Others come
	// into being with the claim, and may exclude each other.
	Made        bool
	MemoryBytes *uint64
}

// CPUGroup is one published group of CPUs, or a single CPU.
type CPUGroup struct {
	Device   string
	NUMANode *int
	Socket   *int
	L3       *int
	SMT      bool
	Count    int
	// CoreType is set of a single CPU.
	CoreType model.CoreType
	// Roots are the PCIe roots near to it, where they are published.
	Roots []string
	// CPUs is nil where the list was too long to publish.
	CPUs *cpuset.CPUSet
	// Reserved are the reserved CPUs of the same NUMA nodes; nil where there are
	// none, or the list was too long.
	Reserved *cpuset.CPUSet
}

// Decode reads the slices of one node, of any driver: what a device is follows from its
// driver's name or its attributes, and where it is from the standard attributes or
// those that a driver has instead. A device that cannot be read is left out and named in
// the error; the Node is complete for all others.
func Decode(published []resourceapi.ResourceSlice) (*Node, error) {
	d := decoder{
		nodes: map[int]*model.NUMANode{}, functions: map[model.PCIAddress]int{}, roots: map[string]int{},
		whole: map[model.PCIAddress]model.DeviceID{}, ofWhole: map[model.DeviceID]Part{}, unknown: map[string]int{},
	}
	var errs []error
	for _, s := range published {
		for _, device := range s.Spec.Devices {
			if err := d.device(s.Spec.Driver, device); err != nil {
				errs = append(errs, fmt.Errorf("decode device %s of %s in slice %s: %w", device.Name, s.Spec.Driver, s.Name, err))
			}
		}
	}
	m, err := d.machine()
	if err != nil {
		return nil, errors.Join(append(errs, err)...)
	}
	n := &Node{Machine: m, CPUGroups: d.groups}
	d.finish(n)
	return n, errors.Join(errs...)
}

// decoder collects the parts of a Node from devices.
type decoder struct {
	parts     model.Machine
	groups    []CPUGroup
	nodes     map[int]*model.NUMANode
	functions map[model.PCIAddress]int
	roots     map[string]int // their indexes in parts, by name
	// whole are the GPUs, ofWhole what else is published of their functions.
	whole   map[model.PCIAddress]model.DeviceID
	ofWhole map[model.DeviceID]Part
	// unknown counts the PCI functions of each driver that are of no known kind.
	unknown map[string]int
}

func (d *decoder) device(driver string, device resourceapi.Device) error {
	r := &reader{domain: driver, attributes: device.Attributes}
	id := model.DeviceID{Driver: driver, Name: device.Name}
	read := r.reading(device.Name)
	switch read.Kind {
	case KindNIC:
		d.nic(id, read, device, r)
	case KindCPU:
		d.cpuGroup(device, r)
	case KindGPU, KindAccelerator:
		d.gpu(id, read, device, r)
	default:
		if read.PCI != nil {
			d.unknown[driver]++
		}
		return nil
	}
	return r.err
}

func (d *decoder) machine() (*model.Machine, error) {
	for _, n := range d.nodes {
		d.parts.NUMANodes = append(d.parts.NUMANodes, *n)
	}
	d.placeRoots()
	return model.New(d.parts)
}

// placeRoots sets the NUMA node of each published root on which its devices agree, so
// that GPUs whose driver publishes no node have that of their root.
func (d *decoder) placeRoots() {
	at := map[string]*int{}
	contradicted := map[string]bool{}
	for _, f := range d.parts.Functions {
		switch known := at[f.Root]; {
		case f.NUMANode == nil:
		case known == nil:
			at[f.Root] = f.NUMANode
		case *known != *f.NUMANode:
			contradicted[f.Root] = true
		}
	}
	for i := range d.parts.Roots {
		if r := &d.parts.Roots[i]; r.Published && !contradicted[r.Name] {
			r.NUMANode = at[r.Name]
		}
	}
}

// finish adds the parts of a Node that are not in its Machine.
func (d *decoder) finish(n *Node) {
	n.Parts = d.ofWhole
	split, passed := map[model.PCIAddress]bool{}, map[model.PCIAddress]bool{}
	for _, part := range d.ofWhole {
		if _, there := d.whole[part.PCI]; !there {
			split[part.PCI] = split[part.PCI] || !part.VFIO
			passed[part.PCI] = true
		}
	}
	maps.DeleteFunc(split, func(_ model.PCIAddress, parts bool) bool { return !parts })
	if len(split) > 0 {
		n.Notes = append(n.Notes, fmt.Sprintf("GPUs that are offered in parts only, and not counted: %d", len(split)))
	}
	if passed := len(passed) - len(split); passed > 0 {
		n.Notes = append(n.Notes, fmt.Sprintf("GPUs that are offered to virtual machines only (VFIO), and not counted: %d", passed))
	}
	for _, driver := range slices.Sorted(maps.Keys(d.unknown)) {
		n.Notes = append(n.Notes, fmt.Sprintf("devices of %s, of which neither the driver's name nor an attribute says what they are, not shown: %d",
			driver, d.unknown[driver]))
	}
}

// node records a NUMA node, and the socket that the first device on it names.
func (d *decoder) node(id, socket *int) {
	if id == nil {
		return
	}
	if d.nodes[*id] == nil {
		d.nodes[*id] = &model.NUMANode{ID: *id}
	}
	d.nodes[*id].Socket = cmp.Or(d.nodes[*id].Socket, socket)
}

// function records the PCI function of a device, once; a second device of the function
// adds what the first had to drop. A device without a published root gets an
// unpublished one, named by its domain and bus.
func (d *decoder) function(f model.PCIFunction, root *string) {
	if at, known := d.functions[f.Address]; known {
		complete(&d.parts.Functions[at], f)
		return
	}
	d.functions[f.Address] = len(d.parts.Functions)
	r := model.PCIRoot{Name: fmt.Sprintf("pci%04x:%02x", f.Address.Domain, f.Address.Bus)}
	if root != nil {
		r = model.PCIRoot{Name: *root, Path: "devices/" + *root, Published: true}
	}
	f.Root = r.Name
	d.parts.Functions = append(d.parts.Functions, f)
	at, known := d.roots[r.Name]
	switch {
	case !known:
		d.roots[r.Name] = len(d.parts.Roots)
		d.parts.Roots = append(d.parts.Roots, r)
	case r.Published:
		d.parts.Roots[at] = r // an unpublished one may turn out to be published
	}
}

func complete(f *model.PCIFunction, other model.PCIFunction) {
	f.VendorName = cmp.Or(f.VendorName, other.VendorName)
	f.DeviceName = cmp.Or(f.DeviceName, other.DeviceName)
	f.SubsystemDevice = cmp.Or(f.SubsystemDevice, other.SubsystemDevice)
}
