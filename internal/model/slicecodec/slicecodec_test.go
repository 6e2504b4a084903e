// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package slicecodec

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
)

func TestStandardNamesAreUpstreams(t *testing.T) {
	for ours, theirs := range map[string]resourceapi.QualifiedName{
		AttrPCIeRoot: deviceattribute.StandardDeviceAttributePCIeRoot,
		AttrPCIBusID: deviceattribute.StandardDeviceAttributePCIBusID,
		AttrNUMANode: deviceattribute.StandardDeviceAttributeNUMANode,
	} {
		if ours != string(theirs) {
			t.Errorf("we say %s, Kubernetes says %s", ours, theirs)
		}
	}
}

func encodeAll(m *model.Machine) []resourceapi.ResourceSlice {
	var published []resourceapi.ResourceSlice
	for _, driver := range Drivers() {
		for _, devices := range Split(Encode(m, driver, CPUOptions{})) {
			published = append(published, resourceapi.ResourceSlice{
				Spec: resourceapi.ResourceSliceSpec{Driver: driver, Devices: devices},
			})
		}
	}
	return published
}

// What is published, read back and published again is the same; twice the same
// machine gives the same bytes; and all of it is within the API's limits.
func TestRoundTrip(t *testing.T) {
	for seed := range uint64(500) {
		m := randomMachine(rand.New(rand.NewPCG(seed, 1)))
		published := encodeAll(m)
		if again := encodeAll(m); !equalJSON(t, published, again) {
			t.Fatalf("seed %d: the same machine encodes in two ways", seed)
		}
		for _, s := range published {
			for _, d := range s.Spec.Devices {
				checkLimits(t, d)
			}
		}
		node, err := Decode(published)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, driver := range []string{DriverNet, DriverGPU} {
			if diff := cmp.Diff(Encode(m, driver, CPUOptions{}), Encode(node.Machine, driver, CPUOptions{})); diff != "" {
				t.Fatalf("seed %d, %s, published (-) and republished (+):\n%s", seed, driver, diff)
			}
		}
		checkGroups(t, m, node.CPUGroups)
	}
}

// No driver publishes an attribute that is not among its names, but those of a
// cloud.
func TestAttributesOfDrivers(t *testing.T) {
	for _, driver := range Drivers() {
		names := AttributesOf(driver)
		if driver == DriverNet {
			// A virtual function has none of its own and no Data Direct, a stand-in
			// reaches no GPU, and what has a published root is not paired by a file.
			// The alias is the first to go where a virtual function has all others, and one
			// that is shared goes without more descriptions.
			never := []string{attrSRIOVVFs, attrGPUDirect, AttrDataDirectRoot, AttrPairedGPU, dropOrder[0], AttrShared, AttrShareType, attrShareOptions}
			names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(never, name) })
		}
		if n := len(names); n > resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
			t.Errorf("%s has %d attributes, more than a device has room for", driver, n)
		}
	}
	for seed := range uint64(50) {
		m := randomMachine(rand.New(rand.NewPCG(seed, 1)))
		for _, driver := range Drivers() {
			known := AttributesOf(driver)
			for _, mode := range []CPUMode{PerNUMANode, SingleCPUs} {
				for _, d := range Encode(m, driver, CPUOptions{Mode: mode, PCIeRoots: true}) {
					for name := range d.Attributes {
						full := string(name)
						if !strings.Contains(full, "/") {
							full = driver + "/" + full
						}
						if !slices.Contains(known, full) && !strings.HasPrefix(full, "example.com/") {
							t.Fatalf("%s publishes %s, which is not known of it", driver, name)
						}
					}
				}
			}
		}
	}
}

func checkGroups(t *testing.T, m *model.Machine, groups []CPUGroup) {
	t.Helper()
	for _, g := range groups {
		want := FindCPUDevice(m, CPUOptions{}, g.Device).CPUs
		if g.Count != want.Size() || g.CPUs == nil || !g.CPUs.Equals(want) {
			t.Errorf("group %s: %d CPUs %v, want %v", g.Device, g.Count, g.CPUs, want)
		}
	}
}

func checkLimits(t *testing.T, d resourceapi.Device) {
	t.Helper()
	if problems := validation.IsDNS1123Label(d.Name); len(problems) > 0 {
		t.Errorf("device name %q: %v", d.Name, problems)
	}
	if n := len(d.Attributes) + len(d.Capacity); n > resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
		t.Errorf("device %s has %d attributes and capacities", d.Name, n)
	}
	for name, a := range d.Attributes {
		if s := a.StringValue; s != nil && (*s == "" || len(*s) > resourceapi.DeviceAttributeMaxValueLength || !utf8.ValidString(*s)) {
			t.Errorf("device %s, attribute %s: %q", d.Name, name, *s)
		}
		if a.IntValue != nil && *a.IntValue < 0 && ownAttributes[string(name)] {
			t.Errorf("device %s, attribute %s: %d", d.Name, name, *a.IntValue)
		}
		if _, id, ok := strings.Cut(string(name), "/"); ok && len(id) > resourceapi.DeviceMaxIDLength {
			t.Errorf("attribute %s is too long", name)
		}
	}
}

func equalJSON(t *testing.T, a, b any) bool {
	t.Helper()
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	if errX != nil || errY != nil {
		t.Fatal(errX, errY)
	}
	return string(x) == string(y)
}

func TestNICNames(t *testing.T) {
	address, err := model.ParsePCIAddress("0000:91:00.0")
	if err != nil {
		t.Fatal(err)
	}
	for want, n := range map[string]model.NIC{
		"pci-0000-91-00-0":    {PCI: &address, Interface: &model.Interface{Name: "gpu0rdma0"}},
		"pci-0000-91-00-0-p1": {PCI: &address, Port: ptr.To("p1")},
		"dummy0":              {Interface: &model.Interface{Name: "dummy0"}},
		"net-mv2gqmbomeyta":   {Interface: &model.Interface{Name: "eth0.a10"}},
		"net-nzsxillyne":      {Interface: &model.Interface{Name: "net-xi"}},
		"siw0":                {RDMA: &model.RDMADevice{Name: "siw0"}},
		"net-obrwsljq":        {Interface: &model.Interface{Name: "pci-0"}},
		"rdma-663lsrubsx44ffcstsw3ul76ropkmyvfznivo7qhfkfc44zm3pxa": {RDMA: &model.RDMADevice{Name: strings.Repeat("X", 63)}},
	} {
		if got := NICName(n); got != want {
			t.Errorf("NICName(%v) = %q, want %q", n, got, want)
		}
	}
}

func TestCPUCapacityPolicy(t *testing.T) {
	one, many := cpuCapacity(1), cpuCapacity(112)
	if len(one.RequestPolicy.ValidValues) != 1 || one.RequestPolicy.ValidRange != nil {
		t.Errorf("a group of one CPU: %+v", one.RequestPolicy)
	}
	r := many.RequestPolicy.ValidRange
	if r == nil || r.Min.Value() != 1 || r.Step.Value() != 1 || r.Max.Value() != 112 || many.RequestPolicy.Default.Value() != 112 {
		t.Errorf("a group of 112 CPUs: %+v", many.RequestPolicy)
	}
}

func TestTooManyAttributesDropInOrder(t *testing.T) {
	b := newBuilder("pci-0000-91-00-0")
	const others = 26
	for i := range others {
		b.number("example.com/a"+string(rune('a'+i)), &i)
	}
	for _, name := range dropOrder {
		b.text(name, ptr.To("x"))
	}
	device := b.build()
	if n := len(device.Attributes); n != 32 {
		t.Fatalf("%d attributes left", n)
	}
	over := others + len(dropOrder) - 32
	for i, name := range dropOrder {
		if _, there := device.Attributes[resourceapi.QualifiedName(name)]; there != (i >= over) {
			t.Errorf("%s there: %t", name, there)
		}
	}
	if len(b.omitted) != over {
		t.Errorf("said of %d what was dropped, want %d: %q", len(b.omitted), over, b.omitted)
	}
}

func TestForeignAttributes(t *testing.T) {
	long := strings.Repeat("ü", 40)
	given := map[string]model.Attribute{
		"gce.dra.net/networkName":                model.TextAttribute("gpu-net-1"),
		"gce.dra.net/networkProjectNumber":       model.NumberAttribute(-7),
		"alibaba.dra.net/erdma":                  model.FlagAttribute(false),
		"example.com/long":                       model.TextAttribute(long),
		"example.com/empty":                      model.TextAttribute(""),
		"example.com/none":                       {},
		"dra.net/rdma":                           model.FlagAttribute(true),
		"dra.cpu/socketID":                       model.NumberAttribute(1),
		"plumbline.dev/simulated":                model.FlagAttribute(false),
		"resource.kubernetes.io/pcieRoot":        model.TextAttribute("pci0000:00"),
		"noDomain":                               model.NumberAttribute(1),
		"Example.com/upper":                      model.NumberAttribute(1),
		"example.com/a-b":                        model.NumberAttribute(1),
		"example.com/a/b":                        model.NumberAttribute(1),
		"example.com/" + strings.Repeat("x", 33): model.NumberAttribute(1),
		strings.Repeat("x", 60) + ".com/x":       model.NumberAttribute(1),
		"example.com/\xff":                       model.NumberAttribute(1),
	}
	m, err := model.New(model.Machine{NICs: []model.NIC{{Interface: &model.Interface{Name: "eth0"}, Attributes: given}}})
	if err != nil {
		t.Fatal(err)
	}
	device := Encode(m, DriverNet, CPUOptions{})[0]
	checkLimits(t, device)
	node, err := Decode(encodeAll(m))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]model.Attribute{
		"gce.dra.net/networkName":          given["gce.dra.net/networkName"],
		"gce.dra.net/networkProjectNumber": given["gce.dra.net/networkProjectNumber"],
		"alibaba.dra.net/erdma":            given["alibaba.dra.net/erdma"],
		"example.com/long":                 model.TextAttribute(strings.Repeat("ü", 32)),
	}
	if diff := cmp.Diff(want, node.Machine.NICs[0].Attributes); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	if device.Attributes[AttrRDMA].BoolValue == nil || *device.Attributes[AttrRDMA].BoolValue {
		t.Error("the cloud's word for rdma won over the host's")
	}
}

// However many attributes a cloud adds, those that selectors read are kept.
func TestManyForeignAttributesLeaveWhatIdentifies(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 2))
		m := randomMachine(r)
		for i := range m.NICs {
			m.NICs[i].Attributes = map[string]model.Attribute{}
			for a := range r.IntN(60) {
				m.NICs[i].Attributes[fmt.Sprintf("example.com/a%d", a)] = model.NumberAttribute(int64(a))
			}
		}
		for i, d := range Encode(m, DriverNet, CPUOptions{}) {
			checkLimits(t, d)
			if _, ok := d.Attributes[AttrPCIBusID]; !ok {
				t.Fatalf("seed %d, NIC %d lost its address", seed, i)
			}
		}
	}
}

func TestDecodeLeavesOutOnlyTheBadDevice(t *testing.T) {
	m := randomMachine(rand.New(rand.NewPCG(3, 1)))
	published := encodeAll(m)
	bad := resourceapi.Device{Name: "pci-bad", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		AttrPCIBusID: {StringValue: ptr.To("nowhere")},
	}}
	published[0].Spec.Devices = append(published[0].Spec.Devices, bad)
	node, err := Decode(published)
	if err == nil || !strings.Contains(err.Error(), "pci-bad") || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("error %v does not name the device and the value", err)
	}
	if len(node.Machine.NICs) != len(Encode(m, DriverNet, CPUOptions{})) {
		t.Errorf("%d NICs left of %d", len(node.Machine.NICs), len(m.NICs))
	}
}

// Whatever the names of interfaces and RDMA devices are, each NIC is published once, and
// none makes the API server refuse the slice.
func TestHostileNamesBlankNoNode(t *testing.T) {
	pieces := []string{
		"eth0", "Eth0", "pci-0000-91-00-0", "net-", "rdma-x", "-", "a.b", "ü", "\xff", "a/b", "\n",
		strings.Repeat("n", 15), strings.Repeat("R", 63),
	}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 4))
		name := func() string { return pieces[r.IntN(len(pieces))] + pieces[r.IntN(len(pieces))] }
		var parts model.Machine
		for range 100 {
			n := model.NIC{}
			if r.IntN(2) == 0 {
				n.Interface = &model.Interface{Name: name(), Alias: ptr.To(name()), Kind: ptr.To(name())}
			}
			if r.IntN(2) == 0 {
				n.RDMA = &model.RDMADevice{Name: name(), LinkLayer: ptr.To(name())}
			}
			parts.NICs = append(parts.NICs, n)
		}
		m, err := model.New(parts)
		if err != nil {
			t.Fatal(err)
		}
		wanted, seen := map[string]bool{}, map[string]bool{}
		for _, n := range m.NICs {
			wanted[NICName(n)] = true
		}
		delete(wanted, "")
		devices, omitted := Explain(m, DriverNet, CPUOptions{})
		for _, d := range devices {
			checkLimits(t, d)
			if seen[d.Name] {
				t.Fatalf("seed %d: %s is there twice", seed, d.Name)
			}
			seen[d.Name] = true
		}
		if len(seen) != len(wanted) {
			t.Errorf("seed %d: %d of %d names published", seed, len(seen), len(wanted))
		}
		if len(devices)+len(omitted) < len(m.NICs) {
			t.Errorf("seed %d: %d NICs, %d published, %d explained", seed, len(m.NICs), len(devices), len(omitted))
		}
		for _, part := range Split(devices) {
			if len(part) > resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures {
				t.Errorf("a slice of %d devices", len(part))
			}
		}
	}
}

// NICs and GPUs say which socket they are on where their NUMA node does, and
// nothing where the node is not known or not of one socket.
func TestSocket(t *testing.T) {
	cpu := func(id, node, socket int) model.CPU {
		return model.CPU{ID: id, Online: true, NUMANode: &node, Core: &model.CoreID{Package: socket, Core: id}}
	}
	parts := model.Machine{
		NUMANodes: []model.NUMANode{{ID: 0}, {ID: 1}, {ID: 2}, {ID: 3}, {ID: 4}},
		// Two nodes of one socket, one of the other, one of both, and memory alone.
		CPUs:  []model.CPU{cpu(0, 0, 0), cpu(1, 1, 0), cpu(2, 2, 36), cpu(3, 3, 0), cpu(4, 3, 36)},
		Roots: []model.PCIRoot{{Name: "pci0000:10", Published: true}},
	}
	wants := []*int64{ptr.To[int64](0), ptr.To[int64](0), ptr.To[int64](36), nil, nil, nil}
	for i := range wants {
		var node *int
		if i < 5 {
			node = &i
		}
		nic, gpu := model.PCIAddress{Bus: 0x10, Device: uint8(i)}, model.PCIAddress{Bus: 0x10, Device: uint8(i), Function: 1}
		parts.NICs = append(parts.NICs, model.NIC{PCI: &nic, NUMANode: node})
		parts.GPUs = append(parts.GPUs, model.GPU{Index: i, PCI: gpu, NUMANode: node})
		for _, a := range []model.PCIAddress{nic, gpu} {
			parts.Functions = append(parts.Functions, model.PCIFunction{Address: a, Root: "pci0000:10", NUMANode: node})
		}
	}
	m, err := model.New(parts)
	if err != nil {
		t.Fatal(err)
	}
	for _, driver := range []string{DriverNet, DriverGPU} {
		for i, d := range Encode(m, driver, CPUOptions{}) {
			if got := d.Attributes[AttrSocket].IntValue; !cmp.Equal(got, wants[i]) {
				t.Errorf("%s, device %s: socket %v, want %v", driver, d.Name, ptr.Deref(got, -1), ptr.Deref(wants[i], -1))
			}
		}
	}
	node, err := Decode(encodeAll(m))
	if err != nil {
		t.Fatal(err)
	}
	for id := range 5 {
		if diff := cmp.Diff(m.Socket(&id), node.Machine.Socket(&id)); diff != "" {
			t.Errorf("node %d (-published +read):\n%s", id, diff)
		}
	}
}

func TestVersionsTheAPIRefusesAreLeftOut(t *testing.T) {
	for text, want := range map[string]bool{
		"580.126.20": true, "13.0.0": true, "1.2.3-rc.1+build": true, "13.0": false, "580.054.15": false,
		"": false, "v1.2.3": false, "1.2.3\n": false, "1.0.0-" + strings.Repeat("x", 60): false,
	} {
		b := newBuilder("gpu-0")
		b.version(attrDriverVersion, &text)
		if _, there := b.device.Attributes[attrDriverVersion]; there != want || len(b.omitted) == 0 != want {
			t.Errorf("%q: published %t, said %q", text, there, b.omitted)
		}
	}
}

func TestTaints(t *testing.T) {
	since := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	devices := []resourceapi.Device{{Name: "pci-0000-91-00-0"}, {Name: "pci-0000-92-00-0"}}
	faults := map[string][]model.Fault{"pci-0000-92-00-0": {
		{Kind: model.FaultPCIe, Message: "x", Since: since}, {Kind: model.FaultCarrier, Since: since}, {Kind: "Unheard"},
		{Kind: model.FaultRDMAPort}, {Kind: model.FaultRDMAFiles},
	}}
	got := Taint(devices, faults, resourceapi.DeviceTaintEffectNoExecute)
	want := []resourceapi.DeviceTaint{
		{Key: "plumbline.dev/carrier-lost", Effect: "NoExecute", TimeAdded: ptr.To(metav1.NewTime(since))},
		{Key: "plumbline.dev/pcie-degraded", Effect: "NoExecute", TimeAdded: ptr.To(metav1.NewTime(since))},
		{Key: "plumbline.dev/rdma-files-missing", Effect: "NoSchedule"},
		{Key: "plumbline.dev/rdma-port-down", Effect: "NoSchedule"},
	}
	if diff := cmp.Diff(want, got[1].Taints); diff != "" {
		t.Errorf("taints (-want +got):\n%s", diff)
	}
	if got[0].Taints != nil || devices[1].Taints != nil {
		t.Error("another device was tainted")
	}
}

// Names of programs are their owners': as many whole ones as fit, sorted, so that
// their order changes nothing.
func TestProgramNames(t *testing.T) {
	long := strings.Repeat("n", 255)
	for name, c := range map[string]struct {
		programs     *model.Programs
		ebpf         *bool
		filters, tcx *string
	}{
		"nobody looked": {},
		"none":          {programs: &model.Programs{}, ebpf: ptr.To(false)},
		"nameless":      {programs: &model.Programs{Attached: true, Filters: []string{""}}, ebpf: ptr.To(true)},
		"some": {
			programs: &model.Programs{Attached: true, Filters: []string{"to", "from", "to"}, TCX: []string{"cil_from_netdev"}},
			ebpf:     ptr.To(true), filters: ptr.To("from,to"), tcx: ptr.To("cil_from_netdev"),
		},
		"too many": {
			programs: &model.Programs{Attached: true, TCX: []string{long[:40], "m", long[:30]}},
			ebpf:     ptr.To(true), tcx: ptr.To("m," + long[:30]),
		},
		"too long": {programs: &model.Programs{Attached: true, Filters: []string{long}}, ebpf: ptr.To(true), filters: ptr.To(long[:64])},
		"hostile": {
			programs: &model.Programs{Attached: true, Filters: []string{"b,a", ",", "\xff"}},
			ebpf:     ptr.To(true), filters: ptr.To("a,b,\uFFFD"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := model.New(model.Machine{NICs: []model.NIC{{Interface: &model.Interface{Name: "eth0", Programs: c.programs}}}})
			if err != nil {
				t.Fatal(err)
			}
			d := Encode(m, DriverNet, CPUOptions{})[0]
			checkLimits(t, d)
			for attribute, want := range map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				attrEBPF: {BoolValue: c.ebpf}, attrTCFilters: {StringValue: c.filters}, attrTCXPrograms: {StringValue: c.tcx},
			} {
				if diff := cmp.Diff(want, d.Attributes[attribute]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", attribute, diff)
				}
			}
		})
	}
}

// A NIC keeps the root of the function that its address names, whatever function does its
// transfers, unless the administrator has chosen the other. The GPU beside that function is
// its own in either case.
func TestDataDirectRoot(t *testing.T) {
	own, direct, gpu := model.PCIAddress{Bus: 1}, model.PCIAddress{Domain: 1, Bus: 1}, model.PCIAddress{Domain: 1, Bus: 2}
	const ownRoot, directRoot = "pci0000:00", "pci0001:00"
	for _, tc := range []struct {
		published, asRoot bool
		root, ofDirect    string
	}{
		{true, false, ownRoot, directRoot},
		{true, true, directRoot, directRoot},
		{false, false, ownRoot, ""},
		{false, true, ownRoot, ""},
	} {
		m, err := model.New(model.Machine{
			Roots:     []model.PCIRoot{{Name: ownRoot, Published: true}, {Name: directRoot, Published: tc.published}},
			Functions: []model.PCIFunction{{Address: own, Root: ownRoot}, {Address: direct, Root: directRoot}},
			NICs:      []model.NIC{{PCI: &own, DataDirect: &direct, DataDirectAsRoot: tc.asRoot, PairedGPU: &gpu}},
		})
		if err != nil {
			t.Fatal(err)
		}
		d := Encode(m, DriverNet, CPUOptions{})[0]
		if root := ptr.Deref(d.Attributes[AttrPCIeRoot].StringValue, ""); root != tc.root {
			t.Errorf("%+v: its root is %q", tc, root)
		}
		if got := ptr.Deref(d.Attributes[AttrDataDirectRoot].StringValue, ""); got != tc.ofDirect {
			t.Errorf("%+v: the root of its Data Direct function is %q", tc, got)
		}
		if got := ptr.Deref(d.Attributes[AttrPairedGPU].StringValue, ""); got != gpu.String() {
			t.Errorf("%+v: its GPU is %q, want %s", tc, got, gpu)
		}
		if address := ptr.Deref(d.Attributes[AttrPCIBusID].StringValue, ""); address != own.String() {
			t.Errorf("%+v: its address is %q", tc, address)
		}
	}
}
