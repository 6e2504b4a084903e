// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package slicecodec

import (
	"cmp"
	"errors"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/model"
)

// Node is what the slices of one node tell about it: less than a scan of the
// node would. Bridges, CPU cores and distances are not published.
type Node struct {
	Machine   *model.Machine
	CPUGroups []CPUGroup
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
	// Reserved are the CPUs beside them that nobody is given; nil where there are
	// none, or the list was too long.
	Reserved *cpuset.CPUSet
}

// Decode reads the slices of one node, those of other drivers than ours left
// out. A device that cannot be read is left out too and named in the error;
// the Node is complete for all others.
func Decode(published []resourceapi.ResourceSlice) (*Node, error) {
	d := decoder{nodes: map[int]*model.NUMANode{}, functions: map[model.PCIAddress]int{}, roots: map[string]bool{}}
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
	return &Node{Machine: m, CPUGroups: d.groups}, errors.Join(errs...)
}

// decoder collects what devices tell.
type decoder struct {
	parts     model.Machine
	groups    []CPUGroup
	nodes     map[int]*model.NUMANode
	functions map[model.PCIAddress]int
	roots     map[string]bool
}

func (d *decoder) device(driver string, device resourceapi.Device) error {
	r := &reader{domain: driver, attributes: device.Attributes}
	switch driver {
	case DriverNet:
		d.nic(device.Name, r)
	case DriverCPU:
		d.cpuGroup(device, r)
	case DriverGPU:
		d.gpu(device, r)
	}
	return r.err
}

func (d *decoder) machine() (*model.Machine, error) {
	for _, n := range d.nodes {
		d.parts.NUMANodes = append(d.parts.NUMANodes, *n)
	}
	return model.New(d.parts)
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

// function records the PCI function of a device, once; a second device of it
// adds what the first had no room for. A device without a published root hangs
// from one made up of its domain and bus, unpublished.
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
	if !d.roots[r.Name] {
		d.roots[r.Name] = true
		d.parts.Roots = append(d.parts.Roots, r)
	}
}

func complete(f *model.PCIFunction, other model.PCIFunction) {
	f.VendorName = cmp.Or(f.VendorName, other.VendorName)
	f.DeviceName = cmp.Or(f.DeviceName, other.DeviceName)
	f.SubsystemDevice = cmp.Or(f.SubsystemDevice, other.SubsystemDevice)
}
