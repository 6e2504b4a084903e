// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"net/netip"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// Kind is what a device is to a pod.
type Kind string

// The kinds. An empty one is not known: that of a device of an unknown driver,
// without a PCI address.
const (
	NIC  Kind = "nic"
	GPU  Kind = "gpu"
	CPUs Kind = "cpus"
	// PCI is a PCI function whose class says what it is.
	PCI Kind = "pci"
)

// Claim is an allocated claim of a pod.
type Claim struct {
	Namespace, Name, UID string
	Devices              []Device
	Constraints          []resourceapi.DeviceConstraint
	// Derived are the expressions of derived attributes, by request (or
	// request/subrequest) and name; nil where the claim has none.
	Derived map[string]map[string]string
}

// Device is one allocation result.
type Device struct {
	// Request is the request's name, or request/subrequest.
	Request            string
	Driver, Pool, Name string
	Kind               Kind
	// PCI is nil where not published.
	PCI *model.PCIAddress
	// Interface is what the driver says it is called in the pod
	// (status.devices, networkData); empty where it says nothing.
	Interface string
	// MAC is the address that the driver says the interface has; empty where it
	// says none.
	MAC string
	// RDMA is true where it is, or has, an RDMA device.
	RDMA bool
	// RDMAGiven is true where the driver says in the claim's status that the pod has it,
	// RDMADevice its name on the host; empty where not published.
	RDMAGiven  bool
	RDMADevice string
	// LimitsRDMA is true where the driver gives only those RDMA files that were asked for,
	// and lets containers lock any amount of memory, as plumbline does.
	LimitsRDMA bool
	// Addresses are the interface's, but for those of its link alone, as the driver says.
	Addresses []netip.Addr
	// Network is what the claim's parameters ask of a NIC.
	Network Network
	// CPUCount is how many CPUs were given; 0 where not published.
	CPUCount int
	// NUMANode, Socket and CPU say of which CPUs; nil where not published.
	NUMANode, Socket, CPU *int
	// BindsMemory is true where the driver binds memory beside the CPUs.
	BindsMemory bool
	// Admin devices are looked at and not held.
	Admin bool
	// MIG is set of a part of one of NVIDIA's GPUs, at whose address it is.
	MIG *slicecodec.MIG
	// Shared is true where the driver lets several claims have the device at once, and
	// this one has a share.
	Shared bool
	// Link is the pod's own on a NIC that is shared; nil of everything else, and where no
	// slice says how the NIC is shared. PCI is nil then: the NIC stays on the host.
	Link *ShareLink
	// Attributes are as published; nil where no slice has the device.
	Attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute
}

// ShareLink is the link that a claim has on a NIC that is shared.
type ShareLink struct {
	// Alias is the link's, by which it is found under whatever name.
	Alias string
	// Kind is macvlan, ipvlan or vlan.
	Kind string
	// Parent is the NIC's PCI function, nil of a bond; ParentName its interface on the host.
	Parent     *model.PCIAddress
	ParentName string
	// VLANID is the tag that the claim's parameters ask for; 0 for none.
	VLANID int
}

// Function is the PCI function that the device is, or that its link stands on; nil where
// there is none, or none is published.
func (d *Device) Function() *model.PCIAddress {
	if d.Link != nil {
		return d.Link.Parent
	}
	return d.PCI
}

// ClaimOf reads an allocated claim.
func ClaimOf(c *resourceapi.ResourceClaim, published Published) Claim {
	out := Claim{Namespace: c.Namespace, Name: c.Name, UID: string(c.UID), Constraints: c.Spec.Devices.Constraints, Derived: derivedBy(c.Spec.Devices.Requests)}
	for _, r := range c.Status.Allocation.Devices.Results {
		d := Device{
			Request: r.Request, Driver: r.Driver, Pool: r.Pool, Name: r.Device,
			Admin:      r.AdminAccess != nil && *r.AdminAccess,
			Shared:     r.ShareID != nil,
			Attributes: published[ID{r.Driver, r.Pool, r.Device}],
		}
		d.fill()
		d.fillNetwork(c, r)
		d.fillLink(c, r)
		if q, ok := r.ConsumedCapacity[slicecodec.CapacityCPU]; ok {
			d.CPUCount = int(q.Value())
		}
		for _, s := range c.Status.Devices {
			if s.Driver == r.Driver && s.Pool == r.Pool && s.Device == r.Device && sameShare(s.ShareID, r.ShareID) && s.NetworkData != nil {
				d.Interface, d.MAC = s.NetworkData.InterfaceName, s.NetworkData.HardwareAddress
			}
		}
		out.Devices = append(out.Devices, d)
	}
	return out
}

func sameShare(told *string, allocated *types.UID) bool {
	return told == nil && allocated == nil || told != nil && allocated != nil && *told == string(*allocated)
}

// fill reads what the attributes and the name say.
func (d *Device) fill() {
	// What cannot be read is absent, like what is not published.
	read, _ := slicecodec.Read(d.Driver, d.Name, d.Attributes)
	d.PCI, d.NUMANode, d.RDMA, d.MIG = read.PCI, read.NUMANode, read.RDMA, read.MIG
	switch {
	case read.Part && d.Driver != slicecodec.DriverGPU:
		// AMD's partitions have device files without a PCI function. NVIDIA's
		// slices of a GPU come with that one's file.
	case read.Kind == slicecodec.KindNIC:
		d.Kind = NIC
	case read.Kind == slicecodec.KindGPU, read.Kind == slicecodec.KindAccelerator:
		d.Kind = GPU
	case read.Kind == slicecodec.KindCPU:
		d.Kind = CPUs
		d.fillCPUs()
	case d.PCI != nil:
		d.Kind = PCI
	}
}

// fillCPUs reads the attributes of CPUs, ours and those of dra-driver-cpu.
func (d *Device) fillCPUs() {
	if node := d.number(slicecodec.AttrCPUNUMANode); node != nil {
		d.NUMANode = node
	}
	d.Socket, d.CPU = d.number(slicecodec.AttrSocket), d.number(slicecodec.AttrCPUID)
	// dra-driver-cpu leaves cpuset.mems alone, under the same driver name.
	d.BindsMemory = d.attribute(slicecodec.AttrCPUList) != nil
	switch {
	case d.CPU != nil:
		d.CPUCount = 1
	default:
		// A request that names no capacity takes the whole device.
		if n := d.number(slicecodec.AttrNumCPUs); n != nil {
			d.CPUCount = *n
		}
	}
}

// attribute finds an attribute by its full name; the driver's own may stand
// without its domain.
func (d *Device) attribute(name string) *resourceapi.DeviceAttribute {
	if a, ok := d.Attributes[resourceapi.QualifiedName(name)]; ok {
		return &a
	}
	if own, ok := strings.CutPrefix(name, d.Driver+"/"); ok {
		if a, ok := d.Attributes[resourceapi.QualifiedName(own)]; ok {
			return &a
		}
	}
	return nil
}

func (d *Device) number(name string) *int {
	a := d.attribute(name)
	if a == nil || a.IntValue == nil || *a.IntValue < 0 || *a.IntValue >= 1<<16 {
		return nil
	}
	n := int(*a.IntValue)
	return &n
}

// Values are what the device publishes as an attribute, as text; several where
// it is a list, and none where it has it not.
func (d *Device) Values(name string) (values []string, list bool) {
	a := d.attribute(name)
	if a == nil {
		return nil, false
	}
	return valuesOf(a)
}
