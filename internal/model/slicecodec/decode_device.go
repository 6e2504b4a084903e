// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package slicecodec

import (
	"cmp"
	"errors"
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

// typeDevice is attrType of hardware, which has no netlink kind.
const typeDevice = "device"

func (d *decoder) nic(id model.DeviceID, read Reading, device resourceapi.Device, r *reader) {
	n := model.NIC{Published: &id, NUMANode: read.NUMANode, PCI: read.PCI, Attributes: r.cloudAttributes()}
	// Some other drivers do not publish the name of the RDMA device.
	if dev := r.text(AttrRDMADevice); dev != nil || read.RDMA {
		n.RDMA = &model.RDMADevice{Name: ptr.Deref(dev, ""), LinkLayer: r.text(AttrRDMALinkLayer)}
	}
	if name, ok := r.first(ifNames); ok {
		if ifName := r.text(name); ifName != nil {
			n.Interface = r.netInterface(*ifName)
		}
	}
	if _, told := r.get(attrGPUDirect); told {
		n.GPUDirect = ptr.To(r.flag(attrGPUDirect))
	}
	if _, told := r.get(AttrPairedGPU); told {
		n.PairedGPU = r.address(AttrPairedGPU)
	}
	if r.flag(AttrSimulated) {
		n.Simulated = ptr.To("stand-in")
	}
	n.Share = r.share(device.Capacity)
	base, twins := hasTwin(id.Driver, device)
	if !twins {
		base = id.Name
	}
	if n.Share != nil {
		n.Share.AlsoExclusive = twins
	}
	if n.PCI != nil {
		if port, ok := strings.CutPrefix(base, NICName(model.NIC{PCI: n.PCI})+"-"); ok {
			n.Port = &port
		}
	}
	var f model.PCIFunction
	if n.PCI != nil {
		f = r.nicFunction(*n.PCI, n.NUMANode)
	}
	if r.err != nil {
		return
	}
	d.node(n.NUMANode, read.Socket)
	if n.PCI != nil {
		d.function(f, read.Root)
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
			// DRANET truncates its lists to 64 bytes, within the last address.
			if p, err := netip.ParsePrefix(item); err == nil {
				i.Addresses = append(i.Addresses, p)
			}
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
	}
	if name, ok := r.first([]string{AttrPFAddress, "pfPciAddress"}); ok {
		f.PhysicalFunction = r.address(name)
		if name, ok := r.first([]string{attrVFID, "vfID"}); ok {
			f.VFIndex = r.number(name)
		}
	}
	if s := r.text(attrPCISubsystem); s != nil {
		if id, err := strconv.ParseUint(*s, 16, 16); err == nil {
			f.SubsystemDevice = ptr.To(uint16(id))
		} else {
			r.fail(attrPCISubsystem, err)
		}
	}
	if vfs := r.number(attrSRIOVVFs); vfs != nil {
		// The total is not published: it is at least what there are, and at least
		// one.
		f.SRIOV = &model.SRIOV{TotalVFs: max(1, *vfs), NumVFs: *vfs}
	}
	return f
}

func (d *decoder) cpuGroup(device resourceapi.Device, r *reader) {
	g := CPUGroup{
		Device: device.Name, NUMANode: cmp.Or(r.number(AttrCPUNUMANode), r.node()), Socket: r.number(AttrSocket),
		L3: r.number(AttrL3), SMT: r.flag(attrSMT), Count: ptr.Deref(r.number(AttrNumCPUs), 0),
	}
	g.Roots = r.texts(AttrPCIeRoot)
	if kind := r.text(attrCoreType); kind != nil {
		g.CoreType = model.CoreType(*kind)
	}
	if id := r.number(AttrCPUID); id != nil && *id < mostCPUs {
		g.Count, g.CPUs = 1, ptr.To(cpuset.New(*id))
	}
	if cpus := r.cpus(AttrCPUList); cpus != nil {
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

func (d *decoder) gpu(id model.DeviceID, read Reading, device resourceapi.Device, r *reader) {
	if read.Part {
		d.part(id, read, device, r)
		return
	}
	g := model.GPU{
		Published: &id, Index: len(d.parts.GPUs), NUMANode: read.NUMANode, UUID: r.text(attrUUID),
		ProductName: ptr.Deref(r.product(), ""), Brand: r.text(attrBrand), Architecture: r.text(attrArchitecture),
		ComputeCapability: r.version(attrComputeCap), DriverVersion: r.version(attrDriverVersion), CUDAVersion: r.version(attrCUDAVersion),
	}
	if id.Driver == DriverGPU {
		index, whole := gpuIndex(device.Name)
		if !whole {
			r.fail("name", fmt.Errorf("%q is not gpu-<n>", device.Name))
		}
		g.Index = index
	}
	if read.PCI == nil {
		r.fail(AttrPCIBusID, errors.New("absent, and no other attribute has the PCI address"))
	}
	if r.flag(AttrSimulated) {
		g.Simulated = ptr.To("stand-in")
	}
	// AMD's driver publishes 0 where it could not read it.
	if c, ok := device.Capacity[capacityMemory]; ok && (c.Value.Value() != 0 || id.Driver == DriverGPU) {
		if c.Value.Sign() < 0 {
			r.err = errors.Join(r.err, fmt.Errorf("capacity %s: %s is negative", capacityMemory, &c.Value))
		}
		g.MemoryBytes = ptr.To(uint64(c.Value.Value()))
	}
	if r.err != nil {
		return
	}
	g.PCI = *read.PCI
	if _, twice := d.whole[g.PCI]; twice {
		d.part(id, read, device, r)
		return
	}
	d.whole[g.PCI] = id
	class := uint32(model.PCIClassDisplay)
	if read.Kind == KindAccelerator {
		class = model.PCIClassAccelerator
	}
	d.node(g.NUMANode, read.Socket)
	d.function(model.PCIFunction{Address: g.PCI, Class: class << 16, NUMANode: g.NUMANode}, read.Root)
	d.parts.GPUs = append(d.parts.GPUs, g)
}

// product is the product's name: NVIDIA's and AMD's attribute, or Intel's.
func (r *reader) product() *string {
	if name, ok := r.first([]string{attrProductName, "model"}); ok {
		return r.text(name)
	}
	return nil
}

// part records a device that is a part of another one, or the same hardware.
func (d *decoder) part(id model.DeviceID, read Reading, device resourceapi.Device, r *reader) {
	if read.PCI == nil {
		return
	}
	// A MIG device that NVIDIA's driver makes for a claim has no UUID before.
	p := Part{PCI: *read.PCI, MIG: read.MIG, VFIO: read.VFIO, Made: read.MIG != nil && r.text(attrUUID) != nil}
	size := resourceapi.QualifiedName(capacityMemory)
	if p.VFIO {
		size = capacityAddressable
	}
	if c, ok := device.Capacity[size]; ok && c.Value.Sign() > 0 {
		p.MemoryBytes = ptr.To(uint64(c.Value.Value()))
	}
	d.ofWhole[id] = p
	d.node(read.NUMANode, read.Socket)
	d.function(model.PCIFunction{
		Address: p.PCI, Class: model.PCIClassDisplay << 16, NUMANode: read.NUMANode, DeviceName: r.product(),
	}, read.Root)
}

// mostCPUs is beyond any machine's number of CPUs (NR_CPUS is 8192 at most,
// arch/x86/Kconfig): a list that goes further is not expanded.
const mostCPUs = 1 << 16

// ParseCPUs reads a list such as "0-3,8" from an untrusted source.
func ParseCPUs(list string) (cpuset.CPUSet, error) {
	for number := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' || r == '-' }) {
		if n, err := strconv.Atoi(number); err != nil || n >= mostCPUs {
			return cpuset.New(), fmt.Errorf("parse CPU list %q: %q is no CPU", list, number)
		}
	}
	return cpuset.Parse(list)
}
