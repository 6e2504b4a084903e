// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verifytest

import (
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// Originals are DRANET 1.4, dra-driver-cpu 0.3 and NVIDIA's driver 0.5 in place of
// ours: their names of devices, the attributes they publish, and nothing that only
// ours do.
func Originals() Names {
	return Names{
		NIC: func(n model.NIC) string {
			a := n.PCI
			return fmt.Sprintf("pci-%04x-%02x-%02x-%x", a.Domain, a.Bus, a.Device, a.Function)
		},
		GPU: func(g model.GPU) string { return fmt.Sprintf("gpu-%d", g.Index) },
		Slices: func(n *Node) []resourceapi.ResourceSlice {
			return []resourceapi.ResourceSlice{
				SliceOf(n, slicecodec.DriverNet, dranet(n)), SliceOf(n, slicecodec.DriverCPU, draCPU(n)), SliceOf(n, slicecodec.DriverGPU, nvidia(n)),
			}
		},
	}
}

// MIG is a part of a GPU that a pod is given.
type MIG struct {
	// GPU is the number in the machine's list, Instance the GPU instance, Start where it
	// begins in the GPU's memory.
	GPU, Instance, Start int
	Profile              string
}

// Name is as NVIDIA's driver calls it; 9 stands for the number of the profile.
func (m MIG) Name() string {
	return fmt.Sprintf("gpu-%d-mig-%s-9-%d", m.GPU, strings.ReplaceAll(m.Profile, ".", ""), m.Start)
}

// GiveMIG makes the pod hold parts of GPUs, each with the files that NVIDIA's driver
// gives for it, and returns the claim that says so.
func (n *Node) GiveMIG(p *Pod, list ...MIG) AllocatedPod {
	b := newBuilder(n, p, Originals())
	published := nvidia(n)
	for i, m := range list {
		b.result(fmt.Sprintf("mig-%d", i), slicecodec.DriverGPU, m.Name())
		p.Files[fmt.Sprintf("/dev/nvidia%d", m.GPU)] = n.GPUNumber(m.GPU)
		p.Files["/dev/nvidiactl"] = "195:255"
		n.AddInstance(p, m.GPU, m.Instance)
		g := n.Machine.GPUs[m.GPU]
		a := attributes{}
		a.text("type", "mig")
		a.text("profile", m.Profile)
		a.text("parentUUID", fmt.Sprintf("GPU-%08d", g.Index))
		a.text("productName", g.ProductName)
		a.text(slicecodec.AttrPCIBusID, g.PCI.String())
		a.text(slicecodec.AttrPCIeRoot, n.Machine.RootOf(g.PCI).Name)
		published = append(published, resourceapi.Device{Name: m.Name(), Attributes: a})
	}
	return AllocatedPod{Pod: b.pod(), Claim: b.claim, Slices: []resourceapi.ResourceSlice{SliceOf(n, slicecodec.DriverGPU, published)}}
}

type attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute

func (a attributes) text(name, value string) {
	a[resourceapi.QualifiedName(name)] = resourceapi.DeviceAttribute{StringValue: &value}
}

func (a attributes) number(name string, value *int) {
	if value != nil {
		a[resourceapi.QualifiedName(name)] = resourceapi.DeviceAttribute{IntValue: ptr.To(int64(*value))}
	}
}

func (a attributes) flag(name string, value bool) {
	a[resourceapi.QualifiedName(name)] = resourceapi.DeviceAttribute{BoolValue: &value}
}

// dranet publishes no pciBusID; of a NIC that a pod has, its interface's
// attributes are gone.
func dranet(n *Node) []resourceapi.Device {
	var devices []resourceapi.Device
	for _, nic := range n.Machine.NICs {
		if nic.PCI == nil || nic.Port != nil {
			continue
		}
		a := attributes{}
		a.text("dra.net/pciAddress", nic.PCI.String())
		a.text(slicecodec.AttrPCIeRoot, n.Machine.RootOf(*nic.PCI).Name)
		a.number(slicecodec.AttrLegacyNUMANode, nic.NUMANode)
		a.number(slicecodec.AttrNUMANode, nic.NUMANode)
		a.flag(slicecodec.AttrRDMA, nic.RDMA != nil)
		devices = append(devices, resourceapi.Device{Name: Originals().NIC(nic), Attributes: a})
	}
	return devices
}

// draCPU publishes grouped CPUs, without a list of them.
func draCPU(n *Node) []resourceapi.Device {
	var devices []resourceapi.Device
	for _, node := range n.Machine.NUMANodes {
		a := attributes{}
		a.number("dra.cpu/numaNodeID", &node.ID)
		a.number(slicecodec.AttrLegacyNUMANode, &node.ID)
		a.number("dra.cpu/socketID", &node.ID)
		a.number("dra.cpu/numCPUs", ptr.To(node.CPUs.Size()))
		a.flag("dra.cpu/smtEnabled", true)
		devices = append(devices, resourceapi.Device{
			Name: fmt.Sprintf("cpudevnuma%03d", node.ID), Attributes: a, AllowMultipleAllocations: ptr.To(true),
			Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
				slicecodec.CapacityCPU: {Value: *resource.NewQuantity(int64(node.CPUs.Size()), resource.DecimalSI)},
			},
		})
	}
	return devices
}

// nvidia writes its own attributes without their domain.
func nvidia(n *Node) []resourceapi.Device {
	var devices []resourceapi.Device
	for _, g := range n.Machine.GPUs {
		a := attributes{}
		a.text("type", "gpu")
		a.text("uuid", fmt.Sprintf("GPU-%08d", g.Index))
		a.text("productName", g.ProductName)
		a.text(slicecodec.AttrPCIBusID, g.PCI.String())
		a.text(slicecodec.AttrPCIeRoot, n.Machine.RootOf(g.PCI).Name)
		a.number(slicecodec.AttrNUMANode, n.Machine.Function(g.PCI).NUMANode)
		devices = append(devices, resourceapi.Device{Name: Originals().GPU(g), Attributes: a})
	}
	return devices
}

// UnbindMemory leaves the pod's memory to all nodes, as dra-driver-cpu does.
func (n *Node) UnbindMemory(p *Pod) {
	var mems []int
	for _, node := range n.Machine.NUMANodes {
		mems = append(mems, node.ID)
	}
	p.Mems = cpuset.New(mems...)
}
