// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

func TestScanJoinsNICs(t *testing.T) {
	m, problems := scanned(t, Sources{Sys: tree(t, small())}, Options{Name: "small", Architecture: "x86_64"})
	want := `0000:11:00.0 interface eth0 rdma mlx5_0 node 0
0000:11:00.1 interface eth1 rdma mlx4_0 node 0
0000:11:00.1 port p1 interface eth2 node 0
0000:81:00.0 rdma mlx5_1 node 1
0000:82:00.0 rdma hl_0 node 1
0000:82:00.1 interface hl1 node 1
0000:83:00.0 rdma mlx5_2 node 1 withheld: its network interface is in another network namespace
0000:84:00.0 interface ens4 rdma rxe0 node 1
- interface usb0
`
	if diff := cmp.Diff(want, nicLines(m.NICs)); diff != "" {
		t.Errorf("NICs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("", problemLines(problems)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if m.Name != "small" || m.Architecture != "x86_64" {
		t.Errorf("got %q %q, want what Options say", m.Name, m.Architecture)
	}
}

// An adapter that is RDMA alone is a device of its own, whatever stands beside it:
// EFA on AWS, whose interfaces may be EFA alone, and eRDMA on Alibaba Cloud, which
// calls itself Ethernet. Another Ethernet one without its interface is not free.
func TestScanOffersRDMAAlone(t *testing.T) {
	b := &builder{}
	b.line("devices/system/node/online = 0")
	b.line("devices/system/cpu/present = 0")
	efa := b.function("pci0000:10/0000:10:1b.0", "0x020000", -1)
	b.rdma(efa, "rdmap16s27", "Unknown")
	b.driver(efa, "efa")
	b.line("class/infiniband_verbs/uverbs0 -> ../../%s/infiniband_verbs/uverbs0", efa)
	b.line("%s/infiniband_verbs/uverbs0/ibdev = rdmap16s27", efa)
	ena := b.function("pci0000:10/0000:10:1a.0", "0x020000", -1)
	b.net(ena, "ens26", 3, 0)
	b.driver(ena, "ena")
	erdma := b.function("pci0000:00/0000:00:0b.0", "0x020000", -1)
	b.rdma(erdma, "erdma_0", "Ethernet")
	b.driver(erdma, "erdma")
	away := b.function("pci0000:00/0000:00:0c.0", "0x020000", -1)
	b.rdma(away, "mlx5_0", "Ethernet")
	b.driver(away, "mlx5_core")
	m, problems := scanned(t, Sources{Sys: tree(t, b)}, Options{})
	want := `0000:00:0b.0 rdma erdma_0
0000:00:0c.0 rdma mlx5_0 withheld: its network interface is in another network namespace
0000:10:1a.0 interface ens26
0000:10:1b.0 rdma rdmap16s27
`
	if diff := cmp.Diff(want, nicLines(m.NICs)); diff != "" {
		t.Errorf("NICs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("", problemLines(problems)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"/dev/infiniband/uverbs0"}, m.NICs[3].RDMA.CharDevices); diff != "" {
		t.Errorf("device files of EFA (-want +got):\n%s", diff)
	}
	published := map[string]map[string]any{}
	for _, d := range slicecodec.Encode(m, slicecodec.DriverNet, slicecodec.CPUOptions{}) {
		published[d.Name] = map[string]any{}
		for _, name := range []string{"dra.net/ifName", "dra.net/rdma", "dra.net/rdmaDevice", "dra.net/pciAddress", "resource.kubernetes.io/pcieRoot"} {
			switch v := d.Attributes[resourceapi.QualifiedName(name)]; {
			case v.StringValue != nil:
				published[d.Name][name] = *v.StringValue
			case v.BoolValue != nil:
				published[d.Name][name] = *v.BoolValue
			}
		}
	}
	if diff := cmp.Diff(map[string]map[string]any{
		"pci-0000-00-0b-0": {"dra.net/rdma": true, "dra.net/rdmaDevice": "erdma_0", "dra.net/pciAddress": "0000:00:0b.0", "resource.kubernetes.io/pcieRoot": "pci0000:00"},
		"pci-0000-10-1a-0": {"dra.net/rdma": false, "dra.net/ifName": "ens26", "dra.net/pciAddress": "0000:10:1a.0", "resource.kubernetes.io/pcieRoot": "pci0000:10"},
		"pci-0000-10-1b-0": {"dra.net/rdma": true, "dra.net/rdmaDevice": "rdmap16s27", "dra.net/pciAddress": "0000:10:1b.0", "resource.kubernetes.io/pcieRoot": "pci0000:10"},
	}, published); diff != "" {
		t.Errorf("published (-want +got):\n%s", diff)
	}
}

func TestScanPlacesRootsAndCPUs(t *testing.T) {
	b := small()
	b.function("pci0000:c0/0000:c0:00.0", "0x030200", 0)
	b.function("pci0000:c0/0000:c1:00.0", "0x030200", 1)
	b.function("LNXSYSTM:00/VMBUS:00/47505500-0001-0000-3130-444531303244/pci0001:00/0001:00:00.0", "0x030200", 1)
	b.function("pci10000:00/10000:00:01.0", "0x010802", -1)
	m, _ := scanned(t, Sources{Sys: tree(t, b)}, Options{})
	want := []model.PCIRoot{
		{Name: "pci0000:10", Path: "devices/pci0000:10", Published: true, NUMANode: new(0)},
		{Name: "pci0000:80", Path: "devices/pci0000:80", Published: true, NUMANode: new(1)},
		{Name: "pci0000:c0", Path: "devices/pci0000:c0", Published: true}, // its functions disagree
		{Name: "pci0001:00", Path: "devices/LNXSYSTM:00/VMBUS:00/47505500-0001-0000-3130-444531303244/pci0001:00", NUMANode: new(1)},
		{Name: "pci10000:00", Path: "devices/pci10000:00"},
	}
	if diff := cmp.Diff(want, m.Roots); diff != "" {
		t.Errorf("roots (-want +got):\n%s", diff)
	}
	c := m.CPUs[3]
	if c.NUMANode == nil || *c.NUMANode != 1 || c.Core == nil || *c.Core != (model.CoreID{Package: 1, Core: 1}) {
		t.Errorf("CPU 3: got %+v, want node 1, package 1, core 1", c)
	}
	if p := m.Path(newAddress("0000:11:00.0")); len(p) != 2 || p[0] != newAddress("0000:10:01.0") {
		t.Errorf("path of 0000:11:00.0: got %v, want its bridge first", p)
	}
}

func TestScanNamesContradictions(t *testing.T) {
	b := small()
	b.function("pci0000:c0/0000:c0:00.0", "0x020000", 7)
	b.function("pci0000:10/0000:99:00.0/0000:9a:00.0", "0x020000", 0)
	b.function("VMBUS:00/pci0000:10/0000:9b:00.0", "0x020000", 0)
	b.line("bus/pci/devices/0000:9d:00.0 -> ../../../devices/pci0000:10/0000:9c:00.0")
	b.line("devices/system/node/node1/cpulist = 1-3")
	b.net("devices/pci0000:10/0000:10:01.0/0000:11:00.0", "twin", 20, 0)
	b.rdma("devices/pci0000:10/0000:10:01.0/0000:11:00.0", "mlx5_9", "Ethernet")
	b.net("devices/pci0000:10/0000:10:01.0/0000:11:00.0", "eth0_0", 21, 0)
	b.line("devices/pci0000:10/0000:10:01.0/0000:11:00.0/net/eth0_0/phys_port_name = pf0vf0")
	_, problems := scanned(t, Sources{Sys: tree(t, b)}, Options{})
	want := `devices/system/node: nodes 0 and 1 both list CPU 1
bus/pci/devices/0000:9d:00.0: PCI function left out: link leads to another function, 0000:9c:00.0
devices/VMBUS:00/pci0000:10/0000:9b:00.0: PCI function left out: root pci0000:10 is also at devices/pci0000:10
devices/pci0000:c0/0000:c0:00.0: numa_node names node 7, which is not online: taken as unknown
bus/pci/devices/0000:9a:00.0: bridge 0000:99:00.0 above it can not be read: taken as directly below pci0000:10
class/net/twin: interface left out: nothing tells it from eth0 of the same function 0000:11:00.0, both say dev_port 0
class/infiniband/mlx5_9: RDMA device left out: eth0 has mlx5_0 already
`
	if diff := cmp.Diff(want, problemLines(problems)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestScanOffersVirtualOnesOnlyByFilter(t *testing.T) {
	none, _ := scanned(t, Sources{Sys: tree(t, small())}, Options{})
	all, _ := scanned(t, Sources{Sys: tree(t, small())}, Options{Virtual: func(i model.Interface) bool { return true }})
	if got := len(all.NICs) - len(none.NICs); got != 1 {
		t.Errorf("a filter that takes everything adds %d NICs, want 1: loopback never is one\n%s", got, nicLines(all.NICs))
	}
}

// An IPoIB interface that stays on the host is not published, and the host's need of it
// does not withhold its RDMA device.
func TestScanKeepsIPoIB(t *testing.T) {
	b := &builder{}
	ib := b.function("pci0000:10/0000:11:00.0", "0x020700", -1)
	for i, name := range []string{"ib0", "ib0.8001"} {
		b.net(ib, name, i+2, 0)
		b.line("%s/net/%s/type = 32", ib, name)
	}
	b.rdma(ib, "mlx5_0", "InfiniBand")
	roce := b.function("pci0000:10/0000:12:00.0", "0x020000", -1)
	b.net(roce, "eth0", 4, 0)
	b.rdma(roce, "mlx5_1", "Ethernet")
	source := Sources{Sys: tree(t, b), Links: &fakeLinks{links: []LinkFacts{
		{Name: "ib0", Index: 2, Uplink: new("carries the default route")}, {Name: "ib0.8001", Index: 3}, {Name: "eth0", Index: 4},
	}}}
	for _, c := range []struct {
		keep     bool
		want     string
		host     *string
		problems int
	}{
		{false, "0000:11:00.0 interface ib0 rdma mlx5_0 withheld: carries the default route\n0000:12:00.0 interface eth0 rdma mlx5_1\n", nil, 1},
		{true, "0000:11:00.0 rdma mlx5_0\n0000:12:00.0 interface eth0 rdma mlx5_1\n", new("ib0"), 0},
	} {
		m, problems := scanned(t, source, Options{KeepIPoIB: c.keep})
		if diff := cmp.Diff(c.want, nicLines(m.NICs)); diff != "" || len(problems) != c.problems {
			t.Errorf("keep %t: problems %v, NICs (-want +got):\n%s", c.keep, problems, diff)
		}
		if diff := cmp.Diff(c.host, m.NICs[0].RDMA.HostInterface); diff != "" {
			t.Errorf("keep %t: interface on the host (-want +got):\n%s", c.keep, diff)
		}
	}
}

// The interface of another partition key (PKey) is a virtual one, which the kernel ties to
// its parent by netlink alone (drivers/infiniband/ulp/ipoib/ipoib_main.c, ipoib_child_init).
// It keeps its parent on the host, and is offered where an administrator says so.
func TestScanPKeyChildren(t *testing.T) {
	b := &builder{}
	ib := b.function("pci0000:10/0000:11:00.0", "0x020700", -1)
	b.net(ib, "ib0", 2, 0)
	b.line("%s/net/ib0/type = 32", ib)
	b.line("%s/net/ib0/pkey = 0xffff", ib)
	b.rdma(ib, "mlx5_0", "InfiniBand")
	b.net("devices/virtual", "ib0.8001", 3, 0)
	b.line("devices/virtual/net/ib0.8001/type = 32")
	b.line("devices/virtual/net/ib0.8001/pkey = 0x8001")
	source := Sources{Sys: tree(t, b), Links: &fakeLinks{links: []LinkFacts{
		{Name: "ib0", Index: 2, Kind: new("ipoib"), Encapsulation: new("infiniband")},
		{Name: "ib0.8001", Index: 3, Kind: new("ipoib"), Encapsulation: new("infiniband"), Lower: []int{2}},
	}}}
	named := func(i model.Interface) bool { return i.Name == "ib0.8001" && i.Virtual && *i.Kind == "ipoib" }
	const parent = "0000:11:00.0 interface ib0 rdma mlx5_0 withheld: carries ipoib ib0.8001, which would go with it\n"
	for _, c := range []struct {
		name    string
		options Options
		want    string
		host    *string
	}{
		{"moved", Options{}, parent, nil},
		{"moved, the child allowed", Options{Virtual: named}, parent + "- interface ib0.8001\n", nil},
		{"kept", Options{KeepIPoIB: true}, "0000:11:00.0 rdma mlx5_0\n", new("ib0")},
		{"kept, the child allowed", Options{KeepIPoIB: true, Virtual: named}, "0000:11:00.0 rdma mlx5_0\n- interface ib0.8001\n", new("ib0")},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, problems := scanned(t, source, c.options)
			if diff := cmp.Diff(c.want, nicLines(m.NICs)); diff != "" || len(problems) > 0 {
				t.Errorf("problems %v, NICs (-want +got):\n%s", problems, diff)
			}
			if diff := cmp.Diff(c.host, m.NICs[0].RDMA.HostInterface); diff != "" {
				t.Errorf("interface on the host (-want +got):\n%s", diff)
			}
		})
	}
}

// An RDMA device that Plan would refuse to every claim is not offered. RDMARefusals is
// called only about IPoIB.
func TestScanAsksAboutIPoIB(t *testing.T) {
	b := &builder{}
	ib := b.function("pci0000:10/0000:11:00.0", "0x020700", -1)
	b.net(ib, "ib0", 2, 0)
	b.line("%s/net/ib0/type = 32", ib)
	b.rdma(ib, "mlx5_0", "InfiniBand")
	source := Sources{Sys: tree(t, b)}
	for _, c := range []struct {
		name    string
		keep    bool
		refusal error
		want    string
	}{
		{"shared", true, nil, "0000:11:00.0 rdma mlx5_0\n"},
		{"exclusive", true, errors.New("the host would lose ib0"),
			"0000:11:00.0 rdma mlx5_0 withheld: cannot leave the host: the host would lose ib0\n"},
		{"moved along", false, nil, "0000:11:00.0 interface ib0 rdma mlx5_0\n"},
		{"ended by the move", false, errors.New("ib0 would end"), "0000:11:00.0 interface ib0 rdma mlx5_0 withheld: cannot leave the host: ib0 would end\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ask := func([]*model.NIC) (map[string]error, error) {
				return map[string]error{"mlx5_0": c.refusal}, nil
			}
			m, _ := scanned(t, source, Options{KeepIPoIB: c.keep, RDMARefusals: ask})
			if diff := cmp.Diff(c.want, nicLines(m.NICs)); diff != "" {
				t.Errorf("NICs (-want +got):\n%s", diff)
			}
		})
	}
	silent := errors.New("no answer")
	roce := &builder{}
	eth := roce.function("pci0000:10/0000:11:00.0", "0x020000", -1)
	roce.net(eth, "eth0", 2, 0)
	roce.rdma(eth, "mlx5_0", "Ethernet")
	asked := func([]*model.NIC) (map[string]error, error) {
		return map[string]error{"mlx5_0": errors.New("asked")}, nil
	}
	m, _ := scanned(t, Sources{Sys: tree(t, roce)}, Options{RDMARefusals: asked})
	if diff := cmp.Diff("0000:11:00.0 interface eth0 rdma mlx5_0\n", nicLines(m.NICs)); diff != "" {
		t.Errorf("NICs without IPoIB (-want +got):\n%s", diff)
	}
	fail := func([]*model.NIC) (map[string]error, error) { return nil, silent }
	if _, _, err := Scan(t.Context(), source, Options{KeepIPoIB: true, RDMARefusals: fail}); !errors.Is(err, silent) {
		t.Errorf("a scan whose question failed: %v, want %v", err, silent)
	}
}

// A pod that took the physical function would take the links of other tenants'
// virtual functions down.
func TestScanWithholdsPhysicalFunctions(t *testing.T) {
	const busy = "has virtual functions (sriov_numvfs is 2), whose links would go down with it: --allow-physical-functions offers it"
	for _, c := range []struct {
		name, numvfs string
		options      Options
		uplink       *string
		want         string
	}{
		{name: "virtual functions", numvfs: "2", want: "eth0: " + busy + "\n"},
		{name: "none of them", numvfs: "0"},
		{name: "on the administrator's word", numvfs: "2", options: Options{PhysicalFunctions: true}},
		{name: "the node's own", numvfs: "2", uplink: new("carries the default route"), want: "eth0: carries the default route\n"},
		{name: "the node's own, on his word", numvfs: "2", uplink: new("carries the default route"),
			options: Options{PhysicalFunctions: true}, want: "eth0: carries the default route\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := &builder{}
			dir := b.function("pci0000:10/0000:11:00.0", "0x020000", -1)
			b.line("%s/sriov_totalvfs = 8", dir)
			b.line("%s/sriov_numvfs = %s", dir, c.numvfs)
			b.net(dir, "eth0", 2, 0)
			vf := b.function("pci0000:10/0000:11:00.1", "0x020000", -1)
			b.line("%s/physfn -> ../0000:11:00.0", vf)
			b.net(vf, "vf0", 3, 0)
			b.function("pci0000:10/0000:12:00.0", "0x020700", -1)
			source := Sources{Sys: tree(t, b), Links: &fakeLinks{links: []LinkFacts{{Name: "eth0", Index: 2, Uplink: c.uplink}, {Name: "vf0", Index: 3}}}}
			m, _ := scanned(t, source, c.options)
			var got strings.Builder
			for _, n := range m.NICs {
				if n.Withheld != nil {
					fmt.Fprintf(&got, "%s: %s\n", n.Interface.Name, *n.Withheld)
				}
			}
			if diff := cmp.Diff(c.want, got.String()); diff != "" || len(m.NICs) != 2 {
				t.Errorf("%d NICs, withheld (-want +got):\n%s", len(m.NICs), diff)
			}
		})
	}
}

// A NIC that Prepare would refuse to every claim is withheld, and the others have their
// programs.
func TestScanWithholdsWhatTheDriverRefuses(t *testing.T) {
	b := &builder{}
	for i, name := range []string{"eth0", "eth1", "eth2"} {
		dir := b.function(fmt.Sprintf("pci0000:10/0000:1%d:00.0", i), "0x020000", -1)
		b.net(dir, name, i+2, 0)
	}
	source := Sources{Sys: tree(t, b), Links: &fakeLinks{links: []LinkFacts{
		{Name: "eth0", Index: 2, Uplink: new("carries the default route")}, {Name: "eth1", Index: 3}, {Name: "eth2", Index: 4},
	}}}
	m, _ := scanned(t, source, Options{Refusals: func(indexes []int) (map[int]error, map[int]model.Programs, error) {
		if !slices.Equal(indexes, []int{3, 4}) {
			t.Errorf("asked about %v, want those that nothing else withholds", indexes)
		}
		return map[int]error{3: errors.Join(errors.New("interface eth1 has an XDP program"), errors.New("and more"))},
			map[int]model.Programs{2: {Attached: true}, 4: {Attached: true, Filters: []string{"from-container"}}}, nil
	}})
	want := `0000:10:00.0 interface eth0 withheld: carries the default route
0000:11:00.0 interface eth1 withheld: cannot leave the host: interface eth1 has an XDP program; and more
0000:12:00.0 interface eth2
`
	if diff := cmp.Diff(want, nicLines(m.NICs)); diff != "" {
		t.Errorf("NICs (-want +got):\n%s", diff)
	}

	var programs []*model.Programs
	for _, n := range m.NICs {
		programs = append(programs, n.Interface.Programs)
	}
	if diff := cmp.Diff([]*model.Programs{nil, nil, {Attached: true, Filters: []string{"from-container"}}}, programs); diff != "" {
		t.Errorf("eBPF programs (-want +got):\n%s", diff)
	}

	// Who cannot tell which NICs are free offers none.
	_, _, err := Scan(t.Context(), source, Options{Refusals: func([]int) (map[int]error, map[int]model.Programs, error) {
		return nil, nil, errors.New("no answer")
	}})
	if err == nil || !strings.Contains(err.Error(), "ask which NICs may leave the host: no answer") {
		t.Errorf("error %v", err)
	}
}

func TestScanWithoutSys(t *testing.T) {
	if _, _, err := Scan(t.Context(), Sources{Sys: tree(t, &builder{})}, Options{}); err == nil {
		t.Error("a tree without devices: got a machine, want an error")
	}
}

func TestSimulatedGPUs(t *testing.T) {
	source := Simulated{StandIn: "bochs-display", Facts: []model.GPU{
		{PCI: newAddress("0000:02:00.0"), ProductName: "NVIDIA H200"},
		{PCI: newAddress("0000:12:00.0"), ProductName: "NVIDIA H200", NUMANode: new(5)},
	}}
	m, problems := scanned(t, Sources{Sys: tree(t, small()), GPUs: source}, Options{})
	want := []model.GPU{{
		Index: 1,
		PCI:   newAddress("0000:12:00.0"), ProductName: "NVIDIA H200", NUMANode: new(0),
		DeviceNodes: []string{"/dev/dri/card0"}, Simulated: new("bochs-display as NVIDIA H200"),
		UUID: new("GPU-9cf8c449-7688-5d53-8a3a-a1c36092c5f0"), DriverVersion: new("580.126.20"), CUDAVersion: new("13.0.0"),
	}}
	if diff := cmp.Diff(want, m.GPUs); diff != "" {
		t.Errorf("GPUs (-want +got):\n%s", diff)
	}
	wantProblem := "bus/pci/devices/0000:02:00.0: simulated GPU NVIDIA H200 left out: the machine has no function at its address\n"
	if diff := cmp.Diff(wantProblem, problemLines(problems)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}
