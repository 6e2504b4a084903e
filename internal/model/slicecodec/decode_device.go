// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package slicecodec

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
)

// typeDevice is what attrType says of hardware, which has no netlink kind.
const typeDevice = "device"

func (d *decoder) nic(name string, r *reader) {
	n := model.NIC{NUMANode: r.number(AttrNUMANode), PCI: r.address(AttrPCIBusID), Attributes: r.foreign()}
	if dev := r.text(attrRDMADevice); dev != nil {
		n.RDMA = &model.RDMADevice{Name: *dev, LinkLayer: r.text(attrRDMALinkLayer)}
	}
	if ifName := r.text(attrIfName); ifName != nil {
		n.Interface = r.netInterface(*ifName)
	}
	if r.flag(AttrSimulated) {
		n.Simulated = ptr.To("stand-in")
	}
	socket := r.number(AttrSocket)
	if n.PCI != nil {
		if port, ok := strings.CutPrefix(name, NICName(model.NIC{PCI: n.PCI})+"-"); ok {
			n.Port = &port
		}
	}
	if r.err != nil {
		return
	}
	d.node(n.NUMANode, socket)
	if n.PCI != nil {
		d.function(r.nicFunction(*n.PCI, n.NUMANode), r.text(AttrPCIeRoot))
	}
	d.parts.NICs = append(d.parts.NICs, n)
}

func (r *reader) netInterface(name string) *model.Interface {
	i := &model.Interface{
		Name: name, MAC: r.text(attrMAC), MTU: r.number(attrMTU), State: r.text(attrState),
		Encapsulation: r.text(attrEncapsulation), Alias: r.text(attrAlias), Kind: r.text(attrType),
		Virtual: r.flag(attrVirtual), SpeedMbps: r.number(attrLinkSpeed),
	}
	if ptr.Deref(i.Kind, "") == typeDevice {
		i.Kind = nil
	}
	i.Programs = r.programs()
	for _, list := range []*string{r.text(attrIPv4), r.text(attrIPv6)} {
		if list == nil {
			continue
		}
		for item := range strings.SplitSeq(*list, ",") {
			p, err := netip.ParsePrefix(item)
			if err != nil {
				r.fail(attrIPv4, err)
				continue
			}
			i.Addresses = append(i.Addresses, p)
		}
	}
	return i
}

// programs are nil where the device does not say whether there are any.
func (r *reader) programs() *model.Programs {
	if _, there := r.get(attrEBPF); !there {
		return nil
	}
	names := func(attribute string) []string {
		text := r.text(attribute)
		if text == nil {
			return nil
		}
		return strings.Split(*text, ",")
	}
	return &model.Programs{Attached: r.flag(attrEBPF), Filters: names(attrTCFilters), TCX: names(attrTCXPrograms)}
}

func (r *reader) nicFunction(a model.PCIAddress, node *int) model.PCIFunction {
	f := model.PCIFunction{
		Address: a, Class: model.PCIClassNetwork << 16, NUMANode: node, Driver: r.text(attrKernelDriver),
		VendorName: r.text(attrPCIVendor), DeviceName: r.text(attrPCIDevice),
		PhysicalFunction: r.address(attrPFAddress),
	}
	if s := r.text(attrPCISubsystem); s != nil {
		if id, err := strconv.ParseUint(*s, 16, 16); err == nil {
			f.SubsystemDevice = ptr.To(uint16(id))
		} else {
			r.fail(attrPCISubsystem, err)
		}
	}
	if vfs := r.number(attrSRIOVVFs); vfs != nil {
		// How many there could be is not published; as many as there are, and
		// at least one, can.
		f.SRIOV = &model.SRIOV{TotalVFs: max(1, *vfs), NumVFs: *vfs}
	}
	return f
}

func (d *decoder) cpuGroup(device resourceapi.Device, r *reader) {
	g := CPUGroup{
		Device: device.Name, NUMANode: r.number(attrCPUNUMANode), Socket: r.number(AttrSocket),
		L3: r.number(attrL3), SMT: r.flag(attrSMT), Count: ptr.Deref(r.number(attrNumCPUs), 0),
	}
	g.Roots = r.texts(AttrPCIeRoot)
	if kind := r.text(attrCoreType); kind != nil {
		g.CoreType = model.CoreType(*kind)
	}
	if id := r.number(attrCPU); id != nil && *id < mostCPUs {
		g.Count, g.CPUs = 1, ptr.To(cpuset.New(*id))
	}
	if cpus := r.cpus(attrCPUList); cpus != nil {
		g.CPUs = cpus
	}
	if g.Reserved = r.cpus(attrReserved); r.err != nil {
		return
	}
	d.node(g.NUMANode, g.Socket)
	if g.NUMANode != nil {
		d.hugepages(d.nodes[*g.NUMANode], device.Capacity)
	}
	if g.NUMANode != nil && g.CPUs != nil {
		n := d.nodes[*g.NUMANode]
		for _, id := range g.CPUs.Difference(n.CPUs).List() {
			d.parts.CPUs = append(d.parts.CPUs, model.CPU{ID: id, Online: true, NUMANode: g.NUMANode, L3: g.L3, Type: g.CoreType})
		}
		n.CPUs = n.CPUs.Union(*g.CPUs)
	}
	d.groups = append(d.groups, g)
}

func (d *decoder) hugepages(n *model.NUMANode, capacity map[resourceapi.QualifiedName]resourceapi.DeviceCapacity) {
	n.Hugepages = nil
	for name, size := range HugepageCapacities() {
		if c, ok := capacity[resourceapi.QualifiedName(name)]; ok && c.Value.Value() >= size {
			n.Hugepages = append(n.Hugepages, model.HugepagePool{PageBytes: size, Pages: c.Value.Value() / size})
		}
	}
	slices.SortFunc(n.Hugepages, func(a, b model.HugepagePool) int { return cmp.Compare(a.PageBytes, b.PageBytes) })
}

func (d *decoder) gpu(device resourceapi.Device, r *reader) {
	index, whole := gpuIndex(device.Name)
	if kind := r.text(attrGPUType); !whole && kind != nil && *kind != typeGPU {
		return // a slice of a GPU, or one handed to a virtual machine: the vendor's driver offers those too
	}
	g := model.GPU{
		Index:    index,
		NUMANode: r.number(AttrNUMANode), UUID: r.text(attrUUID), ProductName: ptr.Deref(r.text(attrProductName), ""),
		Brand: r.text(attrBrand), Architecture: r.text(attrArchitecture), ComputeCapability: r.version(attrComputeCap),
		DriverVersion: r.version(attrDriverVersion), CUDAVersion: r.version(attrCUDAVersion),
	}
	if !whole {
		r.fail("name", fmt.Errorf("%q is not gpu-<n>", device.Name))
	}
	address := r.address(AttrPCIBusID)
	if address == nil {
		r.fail(AttrPCIBusID, fmt.Errorf("absent"))
	}
	if r.flag(AttrSimulated) {
		g.Simulated = ptr.To("stand-in")
	}
	if c, ok := device.Capacity[capacityMemory]; ok {
		g.MemoryBytes = ptr.To(uint64(c.Value.Value()))
	}
	socket := r.number(AttrSocket)
	if r.err != nil {
		return
	}
	g.PCI = *address
	d.node(g.NUMANode, socket)
	d.function(model.PCIFunction{Address: g.PCI, Class: model.PCIClassDisplay << 16, NUMANode: g.NUMANode}, r.text(AttrPCIeRoot))
	d.parts.GPUs = append(d.parts.GPUs, g)
}

// mostCPUs is beyond any machine's number of CPUs (NR_CPUS is 8192 at most,
// arch/x86/Kconfig): a list that goes further is not expanded.
const mostCPUs = 1 << 16

// ParseCPUs reads a list such as "0-3,8" that somebody else may have written.
func ParseCPUs(list string) (cpuset.CPUSet, error) {
	for number := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' || r == '-' }) {
		if n, err := strconv.Atoi(number); err != nil || n >= mostCPUs {
			return cpuset.New(), fmt.Errorf("parse CPU list %q: %q is no CPU", list, number)
		}
	}
	return cpuset.Parse(list)
}
