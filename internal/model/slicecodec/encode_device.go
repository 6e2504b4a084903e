// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package slicecodec

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
)

// encodeTwin is the whole of a NIC that is shared as well.
func encodeTwin(m *model.Machine, n model.NIC) *builder {
	name, set := TwinName(n), NICName(n)
	n.Share = nil
	b := encodeNIC(m, n)
	b.device.Name = name
	b.consumeNIC(set)
	return b
}

func encodeNIC(m *model.Machine, n model.NIC) *builder {
	n = *n.InShares()
	b := newBuilder(NICName(n))
	b.place(m, n.NUMANode)
	b.rdma(n.RDMA)
	if n.Interface != nil {
		b.netInterface(n.Interface)
	}
	if n.PCI != nil {
		b.pci(m, *n.PCI)
	}
	if n.GPUDirect != nil {
		b.flag(attrGPUDirect, *n.GPUDirect)
	}
	if n.PairedGPU != nil {
		b.text(AttrPairedGPU, ptr.To(n.PairedGPU.String()))
	}
	if n.DataDirect != nil {
		if root := m.RootOf(*n.DataDirect); root != nil && root.Published {
			b.text(AttrDataDirectRoot, &root.Name)
			if n.DataDirectAsRoot {
				b.text(AttrPCIeRoot, &root.Name)
			}
		}
	}
	if n.Simulated != nil {
		b.flag(AttrSimulated, true)
	}
	b.share(n.Share)
	if n.HasTwin() {
		b.consumeNIC(NICName(n))
	}
	b.cloudAttributes(n.Attributes)
	return b
}

// rdma is always set, to true or false: device classes select by it.
func (b *builder) rdma(r *model.RDMADevice) {
	b.flag(AttrRDMA, r != nil)
	if r != nil {
		b.text(AttrRDMADevice, &r.Name)
		b.text(AttrRDMALinkLayer, r.LinkLayer)
	}
}

func (b *builder) netInterface(i *model.Interface) {
	b.text(attrIfName, &i.Name)
	b.text(attrMAC, i.MAC)
	b.number(attrMTU, i.MTU)
	b.text(attrState, i.State)
	b.text(attrEncapsulation, i.Encapsulation)
	b.text(attrAlias, i.Alias)
	b.text(attrType, ptr.To(ptr.Deref(i.Kind, typeDevice)))
	b.flag(attrVirtual, i.Virtual)
	b.number(attrLinkSpeed, i.SpeedMbps)
	var v4, v6 []string
	for _, a := range i.Addresses {
		if a.Addr().Is4() {
			v4 = append(v4, a.String())
		} else {
			v6 = append(v6, a.String())
		}
	}
	b.text(attrIPv4, boundList(v4))
	b.text(attrIPv6, boundList(v6))
	b.programs(i.Programs)
}

func (b *builder) programs(p *model.Programs) {
	if p == nil {
		return
	}
	b.flag(attrEBPF, p.Attached)
	b.text(attrTCFilters, boundList(bounded(p.Filters)))
	b.text(attrTCXPrograms, boundList(bounded(p.TCX)))
}

// bounded are the names that fit into an attribute each, sorted, each once. A filter's
// name is any text of up to 255 bytes. One with a comma becomes two: the published list
// is joined with commas.
func bounded(names []string) []string {
	var list []string
	for _, name := range names {
		for part := range strings.SplitSeq(name, ",") {
			if part = boundText(part); part != "" {
				list = append(list, part)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func (b *builder) pci(m *model.Machine, a model.PCIAddress) {
	b.text(attrPCIAddress, ptr.To(a.String()))
	b.pciAddressAndRoot(m, a)
	f := m.Function(a)
	if f == nil {
		return
	}
	b.text(attrPCIVendor, f.VendorName)
	b.text(attrPCIDevice, f.DeviceName)
	if f.SubsystemDevice != nil {
		b.text(attrPCISubsystem, ptr.To(fmt.Sprintf("%04x", *f.SubsystemDevice)))
	}
	b.text(attrKernelDriver, f.Driver)
	b.flag(attrSRIOV, f.SRIOV != nil && f.SRIOV.TotalVFs > 0)
	if f.SRIOV != nil && f.SRIOV.TotalVFs > 0 {
		b.number(attrSRIOVVFs, &f.SRIOV.NumVFs)
	}
	if f.PhysicalFunction != nil {
		b.flag(AttrIsVF, true)
		b.text(AttrPFAddress, ptr.To(f.PhysicalFunction.String()))
		b.text(attrPFName, interfaceAt(m, *f.PhysicalFunction))
		b.number(attrVFID, f.VFIndex)
	}
}

// interfaceAt names the first interface of a function, or nil.
func interfaceAt(m *model.Machine, a model.PCIAddress) *string {
	for _, n := range m.NICs {
		if n.PCI != nil && *n.PCI == a && n.Interface != nil {
			return &n.Interface.Name
		}
	}
	return nil
}

func encodeGPU(m *model.Machine, g model.GPU) *builder {
	b := newBuilder(GPUName(g))
	b.place(m, g.NUMANode)
	b.text(attrGPUType, ptr.To(typeGPU))
	b.text(attrUUID, g.UUID)
	if g.ProductName != "" {
		b.text(attrProductName, &g.ProductName)
	}
	b.text(attrBrand, g.Brand)
	b.text(attrArchitecture, g.Architecture)
	b.version(attrComputeCap, g.ComputeCapability)
	b.version(attrDriverVersion, g.DriverVersion)
	b.version(attrCUDAVersion, g.CUDAVersion)
	b.pciAddressAndRoot(m, g.PCI)
	if g.Simulated != nil {
		b.flag(AttrSimulated, true)
	}
	if g.MemoryBytes != nil {
		b.device.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			capacityMemory: {Value: *resource.NewQuantity(int64(*g.MemoryBytes), resource.BinarySI)},
		}
	}
	return b
}
