// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// Kind is what a device is to a pod.
type Kind string

// The kinds. An empty one is not known: a driver that nobody here knows, of a
// device without a PCI address.
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
}

// Device is one allocation result.
type Device struct {
	// Request is the request's name, or request/subrequest.
	Request            string
	Driver, Pool, Name string
	Kind               Kind
	// PCI is nil where nobody says.
	PCI *model.PCIAddress
	// Interface is what the driver says it is called in the pod
	// (status.devices, networkData); empty where it says nothing.
	Interface string
	// MAC is the address that the driver says the interface has; empty where it
	// says none.
	MAC string
	// RDMA is true where it is, or has, an RDMA device.
	RDMA bool
	// CPUCount is how many CPUs were given; 0 where nobody says.
	CPUCount int
	// NUMANode, Socket and CPU say of which CPUs; nil where nobody says.
	NUMANode, Socket, CPU *int
	// BindsMemory is true where the driver promises memory beside the CPUs.
	BindsMemory bool
	// Admin devices are looked at and not held.
	Admin bool
	// Attributes are as published; nil where no slice has the device.
	Attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute
}

// ClaimOf reads an allocated claim.
func ClaimOf(c *resourceapi.ResourceClaim, published Published) Claim {
	out := Claim{Namespace: c.Namespace, Name: c.Name, UID: string(c.UID), Constraints: c.Spec.Devices.Constraints}
	for _, r := range c.Status.Allocation.Devices.Results {
		d := Device{
			Request: r.Request, Driver: r.Driver, Pool: r.Pool, Name: r.Device,
			Admin:      r.AdminAccess != nil && *r.AdminAccess,
			Attributes: published[ID{r.Driver, r.Pool, r.Device}],
		}
		d.fill()
		if q, ok := r.ConsumedCapacity[slicecodec.CapacityCPU]; ok {
			d.CPUCount = int(q.Value())
		}
		for _, s := range c.Status.Devices {
			if s.Driver == r.Driver && s.Pool == r.Pool && s.Device == r.Device && s.NetworkData != nil {
				d.Interface, d.MAC = s.NetworkData.InterfaceName, s.NetworkData.HardwareAddress
			}
		}
		out.Devices = append(out.Devices, d)
	}
	return out
}

// fill reads what the attributes say, and what names say where those are
// missing: DRANET's devices lose theirs while a pod has them.
func (d *Device) fill() {
	d.PCI = d.address()
	d.NUMANode = d.number(slicecodec.AttrNUMANode)
	if rdma := d.attribute(slicecodec.AttrRDMA); rdma != nil && rdma.BoolValue != nil {
		d.RDMA = *rdma.BoolValue
	}
	switch d.Driver {
	case slicecodec.DriverNet:
		d.Kind = NIC
	case slicecodec.DriverGPU:
		d.Kind = GPU
	case slicecodec.DriverCPU:
		d.Kind = CPUs
		d.fillCPUs()
	default:
		if d.PCI != nil {
			d.Kind = PCI
		}
	}
}

// Attributes of dra.cpu, ours and dra-driver-cpu's.
const (
	attrCPUNode  = "dra.cpu/numaNodeID"
	attrCPU      = "dra.cpu/cpuID"
	attrNumCPUs  = "dra.cpu/numCPUs"
	attrCPUsOurs = "plumbline.dev/cpuList"
)

func (d *Device) fillCPUs() {
	if node := d.number(attrCPUNode); node != nil {
		d.NUMANode = node
	}
	d.Socket, d.CPU = d.number(slicecodec.AttrSocket), d.number(attrCPU)
	// dra-driver-cpu leaves cpuset.mems alone, under the same driver name.
	d.BindsMemory = d.attribute(attrCPUsOurs) != nil
	switch {
	case d.CPU != nil:
		d.CPUCount = 1
	default:
		// A request that names no capacity takes the whole device.
		if n := d.number(attrNumCPUs); n != nil {
			d.CPUCount = *n
		}
	}
}

// address is the standard attribute's, DRANET's, or that of the device's name.
func (d *Device) address() *model.PCIAddress {
	for _, name := range []string{slicecodec.AttrPCIBusID, "dra.net/pciAddress"} {
		if a := d.attribute(name); a != nil && a.StringValue != nil {
			if address, err := model.ParsePCIAddress(*a.StringValue); err == nil {
				return &address
			}
		}
	}
	return addressOfName(d.Name)
}

// addressOfName reads "pci-0000-91-00-0", also with "-p1" behind it.
func addressOfName(name string) *model.PCIAddress {
	rest, ok := strings.CutPrefix(name, "pci-")
	parts := strings.Split(rest, "-")
	if !ok || len(parts) < 4 {
		return nil
	}
	address, err := model.ParsePCIAddress(parts[0] + ":" + parts[1] + ":" + parts[2] + "." + parts[3])
	if err != nil {
		return nil
	}
	return &address
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
