// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package slicecodec

import (
	"errors"
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
)

// Kind is what a published device is.
type Kind string

// The kinds. The empty one is not known.
const (
	KindNIC Kind = "nic"
	KindGPU Kind = "gpu"
	// KindAccelerator is an accelerator other than a GPU: a TPU, an HPU.
	KindAccelerator Kind = "accelerator"
	KindCPU         Kind = "cpu"
)

// Other drivers whose names do not tell what they offer.
const (
	driverSRIOV = "sriovnetwork.k8snetworkplumbingwg.io" // k8snetworkplumbingwg/dra-driver-sriov
	driverGaudi = "gaudi.intel.com"                      // intel/intel-resource-drivers-for-kubernetes
)

// KindOfDriver is what a driver offers, by its name; most begin with the kind, as
// gpu.amd.com, gpu.intel.com and gpu.nvidia.com do.
func KindOfDriver(driver string) Kind {
	switch driver {
	case DriverNet, driverSRIOV:
		return KindNIC
	case DriverCPU:
		return KindCPU
	case driverGaudi:
		return KindAccelerator
	}
	switch word, _, _ := strings.Cut(driver, "."); word {
	case "gpu":
		return KindGPU
	case "tpu", "npu", "hpu", "neuron":
		return KindAccelerator
	case "nic", "net", "rdma", "sriov":
		return KindNIC
	}
	return ""
}

// Names that drivers use for a fact instead of the standard one, or beside it; those
// without a domain are in the driver's own. They are tried in this order.
var (
	// addressNames: DRANET's; dra-driver-sriov's and Intel's; AMD's; NVIDIA's
	// until 25.8.
	addressNames = []string{AttrPCIBusID, attrPCIAddress, "pciAddress", "pciAddr", "pcieBusID"}
	// nodeNames: what DRANET, dra-driver-cpu and dra-driver-sriov share; AMD's;
	// that of NVIDIA's devices for virtual machines.
	nodeNames = []string{AttrNUMANode, AttrLegacyNUMANode, "numaNode", "numa"}
	// rootNames: Intel's came before the standard one.
	rootNames = []string{AttrPCIeRoot, "pcieRoot", "pciRoot"}
	// rdmaNames: ours and DRANET's; dra-driver-sriov's.
	rdmaNames = []string{AttrRDMA, "rdma", "rdmaCapable"}
	// ifNames: ours and DRANET's; dra-driver-sriov's.
	ifNames = []string{attrIfName, "ifName", "interfaceName"}
)

// Reading is what a device of any driver is, and where, by its attributes.
type Reading struct {
	// Kind is empty where neither the driver's name nor an attribute says.
	Kind Kind
	// Part says that it is a partition of a device, or a device in the form for a
	// virtual machine, which the driver offers beside the whole or instead.
	Part bool
	// PCI, Root, NUMANode and Socket are nil where the device does not say.
	PCI              *model.PCIAddress
	Root             *string
	NUMANode, Socket *int
	RDMA             bool
	// MIG is set of a part of one of NVIDIA's GPUs; nil for anything else.
	MIG *MIG
	// VFIO: the part is the whole GPU, for a virtual machine.
	VFIO bool
}

// MIG is what a slice says of a MIG device.
type MIG struct {
	// Profile is such as "1g.18gb", ParentUUID the whole GPU's; empty where the device
	// does not say.
	Profile, ParentUUID string
}

// ComputeOnly says whether the device is one of several compute instances that share a
// GPU instance, such as "1c.3g.71gb".
func (m *MIG) ComputeOnly() bool {
	first, _, _ := strings.Cut(m.Profile, ".")
	return strings.HasSuffix(first, "c")
}

// Read reads a device of any driver by the standard attributes and those that drivers
// have instead. What cannot be read is absent, and named in the error.
func Read(driver, device string, attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute) (Reading, error) {
	r := &reader{domain: driver, attributes: attributes}
	return r.reading(device), r.err
}

func (r *reader) reading(device string) Reading {
	d := Reading{
		Kind: KindOfDriver(r.domain), PCI: r.function(device), Root: r.pcieRoot(),
		NUMANode: r.node(), Socket: r.number(AttrSocket),
	}
	if name, ok := r.first(rdmaNames); ok {
		d.RDMA = r.flag(name)
	}
	if _, named := r.first(ifNames); d.Kind == "" && (named || d.RDMA) {
		d.Kind = KindNIC
	}
	d.Part = r.part(device, d.Kind)
	d.MIG = r.mig(d.Part)
	if a, _ := r.get(attrGPUType); d.Part {
		d.VFIO = ptr.Deref(a.StringValue, "") == typeVFIO
	}
	return d
}

// mig reads what NVIDIA's driver says of a part of a GPU.
func (r *reader) mig(part bool) *MIG {
	a, _ := r.get(attrGPUType)
	if !part || r.domain != DriverGPU || ptr.Deref(a.StringValue, "") != typeMIG {
		return nil
	}
	return &MIG{Profile: ptr.Deref(r.text(attrMIGProfile), ""), ParentUUID: ptr.Deref(r.text(attrParentUUID), "")}
}

// parts are the values of attrGPUType of NVIDIA's and AMD's drivers for devices that are
// not a whole GPU for a container.
var parts = map[string]bool{typeMIG: true, typeVFIO: true, "amdgpu-partition": true}

// part reads attrGPUType of a GPU; other kinds of devices may use the name otherwise.
func (r *reader) part(device string, kind Kind) bool {
	if kind != KindGPU {
		return false
	}
	a, _ := r.get(attrGPUType)
	if a.StringValue == nil {
		return false
	}
	if _, whole := gpuIndex(device); r.domain == DriverGPU {
		return !whole && *a.StringValue != typeGPU
	}
	return parts[*a.StringValue]
}

// first finds the first of some names that the device has.
func (r *reader) first(names []string) (string, bool) {
	for _, name := range names {
		if _, ok := r.get(name); ok {
			return name, true
		}
	}
	return "", false
}

// function is the PCI function that the device is, by its attributes or by its
// name: DRANET's devices lose attributes while a pod has them.
func (r *reader) function(device string) *model.PCIAddress {
	if name, ok := r.first(addressNames); ok {
		return r.address(name)
	}
	return addressOfName(device)
}

// addressOfName reads "pci-0000-91-00-0", also with "-p1" behind it.
func addressOfName(name string) *model.PCIAddress {
	rest, ok := strings.CutPrefix(name, "pci-")
	fields := strings.Split(rest, "-")
	if !ok || len(fields) < 4 {
		return nil
	}
	address, err := model.ParsePCIAddress(fields[0] + ":" + fields[1] + ":" + fields[2] + "." + fields[3])
	if err != nil {
		return nil
	}
	return &address
}

// mostNodes is beyond any machine's number of NUMA nodes (CONFIG_NODES_SHIFT is
// 10 at most).
const mostNodes = 1 << 16

// node is a number, or the first of a list, in which the nearest comes first (KEP-6072).
// Other drivers publish -1 where it is unknown.
func (r *reader) node() *int {
	for _, name := range nodeNames {
		a, _ := r.get(name)
		n := a.IntValue
		if n == nil && len(a.IntValues) > 0 {
			n = &a.IntValues[0]
		}
		switch {
		case n == nil && (a.StringValue != nil || a.BoolValue != nil || a.VersionValue != nil):
			r.fail(name, errors.New("not a number"))
		case n == nil || *n < 0:
		case *n >= mostNodes:
			r.fail(name, fmt.Errorf("%d is no NUMA node", *n))
		default:
			id := int(*n)
			return &id
		}
	}
	return nil
}

// Describes says whether a slice has devices of a known kind, or PCI functions.
func Describes(s *resourceapi.ResourceSlice) bool {
	if KindOfDriver(s.Spec.Driver) != "" {
		return true
	}
	for _, d := range s.Spec.Devices {
		if read, _ := Read(s.Spec.Driver, d.Name, d.Attributes); read.Kind != "" || read.PCI != nil {
			return true
		}
	}
	return false
}
