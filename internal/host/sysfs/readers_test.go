// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/model"
)

var sameSets = cmp.Options{
	cmp.Comparer(func(a, b cpuset.CPUSet) bool { return a.Equals(b) }), cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
}

// check compares facts and the text of problems, one a line.
func check[T any](t *testing.T, got T, problems []Problem, want T, wantProblems string) {
	t.Helper()
	if diff := cmp.Diff(want, got, sameSets); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
	var lines []string
	for _, p := range problems {
		lines = append(lines, p.String())
	}
	if diff := cmp.Diff(strings.TrimSpace(wantProblems), strings.Join(lines, "\n")); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func address(t *testing.T, s string) model.PCIAddress {
	t.Helper()
	a, err := model.ParsePCIAddress(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestReadPCI(t *testing.T) {
	tree := hosttest.Tree(t, `
		bus/pci/devices/0000:8c:00.0 -> ../../../devices/pci0000:8c/0000:8c:00.0
		devices/pci0000:8c/0000:8c:00.0/class = 0x060400
		devices/pci0000:8c/0000:8c:00.0/vendor = 0x8086
		devices/pci0000:8c/0000:8c:00.0/device = 0x352a
		devices/pci0000:8c/0000:8c:00.0/subsystem_vendor = 0x0000
		devices/pci0000:8c/0000:8c:00.0/numa_node = 0
		devices/pci0000:8c/0000:8c:00.0/driver -> ../../../bus/pci/drivers/pcieport
		devices/pci0000:8c/0000:8c:00.0/current_link_speed = Unknown
		devices/pci0000:8c/0000:8c:00.0/max_link_speed = 32.0 GT/s PCIe
		devices/pci0000:8c/0000:8c:00.0/current_link_width = 0
		devices/pci0000:8c/0000:8c:00.0/max_link_width = 16

		bus/pci/devices/0000:91:00.0 -> ../../../devices/pci0000:8c/0000:8c:00.0/0000:91:00.0
		devices/pci0000:8c/0000:8c:00.0/0000:91:00.0/class = 0x020000
		devices/pci0000:8c/0000:8c:00.0/0000:91:00.0/vendor = 0x15b3
		devices/pci0000:8c/0000:8c:00.0/0000:91:00.0/device = 0x1021
		devices/pci0000:8c/0000:8c:00.0/0000:91:00.0/subsystem_vendor = 0x15b3
		devices/pci0000:8c/0000:8c:00.0/0000:91:00.0/subsystem_device = 0x0041
		devices/pci0000:8c/0000:8c:00.0/0000:91:00.0/numa_node = -1
		devices/pci0000:8c/0000:8c:00.0/0000:91:00.0/sriov_totalvfs = 8
		devices/pci0000:8c/0000:8c:00.0/0000:91:00.0/sriov_numvfs = 3
		devices/pci0000:8c/0000:8c:00.0/0000:91:00.0/virtfn0 -> ../0000:91:00.7
		devices/pci0000:8c/0000:8c:00.0/0000:91:00.0/virtfn2 -> ../0000:91:00.1

		bus/pci/devices/0000:91:00.1 -> ../../../devices/pci0000:8c/0000:8c:00.0/0000:91:00.1
		devices/pci0000:8c/0000:8c:00.0/0000:91:00.1/class = 0x020000
		devices/pci0000:8c/0000:8c:00.0/0000:91:00.1/vendor = 0x15b3
		devices/pci0000:8c/0000:8c:00.0/0000:91:00.1/device = 0x101e
		devices/pci0000:8c/0000:8c:00.0/0000:91:00.1/physfn -> ../0000:91:00.0
	`)
	port, nic := address(t, "0000:8c:00.0"), address(t, "0000:91:00.0")
	below := PCIPath{Address: nic, Path: "devices/pci0000:8c/0000:8c:00.0/0000:91:00.0", Root: "pci0000:8c", RootPath: "devices/pci0000:8c", Parent: &port}
	vf := below
	vf.Address, vf.Path = address(t, "0000:91:00.1"), "devices/pci0000:8c/0000:8c:00.0/0000:91:00.1"
	want := []PCIDevice{
		{
			PCIPath: PCIPath{Address: port, Path: "devices/pci0000:8c/0000:8c:00.0", Root: "pci0000:8c", RootPath: "devices/pci0000:8c"},
			Class:   0x060400, Vendor: 0x8086, Device: 0x352a,
			NUMANode: new(0), Driver: new("pcieport"), MaxSpeedMTs: new(32000), MaxWidth: new(16),
		},
		{
			PCIPath: below, Class: 0x020000, Vendor: 0x15b3, Device: 0x1021,
			SubsystemVendor: new(uint16(0x15b3)), SubsystemDevice: new(uint16(0x41)),
			TotalVFs: new(8), NumVFs: new(3),
		},
		{PCIPath: vf, Class: 0x020000, Vendor: 0x15b3, Device: 0x101e, PhysicalFunction: &nic, VFIndex: new(2)},
	}
	got, problems := ReadPCI(tree)
	check(t, got, problems, want, "")
}

func TestReadNUMANodes(t *testing.T) {
	// A Grace node: CPUs and memory on node 0, memory alone on nodes 2 and 9.
	tree := hosttest.Tree(t, `
		devices/system/node/online = 0,2,9
		devices/system/node/node0/cpulist = 0-71
		devices/system/node/node0/meminfo = Node 0 MemTotal:       262144 kB\nNode 0 MemFree:  1 kB
		devices/system/node/node0/distance = 10 80 80
		devices/system/node/node2/cpulist =
		devices/system/node/node2/meminfo = Node 2 MemTotal:       1024 kB
		devices/system/node/node2/distance = 80 10
		devices/system/node/node9/cpulist = 0-
	`)
	got, problems := ReadNUMANodes(tree)
	check(t, got, problems, []NUMANode{
		{ID: 0, CPUs: cpuset.New(list(0, 71)...), MemoryBytes: new(uint64(256 << 20)), Distances: map[int]int{0: 10, 2: 80, 9: 80}},
		{ID: 2, CPUs: cpuset.New(), MemoryBytes: new(uint64(1 << 20))},
		{ID: 9, CPUs: cpuset.New()},
	}, `
devices/system/node/node2/distance: lists 2 distances for 3 online nodes
devices/system/node/node9/cpulist: parse "0-": want an ascending list of numbers below 65536, such as 0-3,8`)
}

func TestReadHugepages(t *testing.T) {
	tree := hosttest.Tree(t, `
		devices/system/node/online = 0-1
		devices/system/node/node0/cpulist = 0
		devices/system/node/node0/hugepages/hugepages-1048576kB/nr_hugepages = 4
		devices/system/node/node0/hugepages/hugepages-1048576kB/free_hugepages = 1
		devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages = 512
		devices/system/node/node1/cpulist = 1
		devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages = 0
		devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages = many
		devices/system/node/node1/hugepages/hugepages-2MB/nr_hugepages = 1
	`)
	got, problems := ReadNUMANodes(tree)
	check(t, got, problems, []NUMANode{
		{ID: 0, CPUs: cpuset.New(0), Hugepages: []HugepagePool{{PageBytes: 2 << 20, Pages: 512}, {PageBytes: 1 << 30, Pages: 4}}},
		{ID: 1, CPUs: cpuset.New(1)},
	}, `
devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages: parse "many": want a number from 0
devices/system/node/node1/hugepages/hugepages-2MB: parse "hugepages-2MB": want hugepages-<size>kB`)
}

func list(from, to int) []int {
	var l []int
	for i := from; i <= to; i++ {
		l = append(l, i)
	}
	return l
}

func TestReadNetDevices(t *testing.T) {
	tree := hosttest.Tree(t, `
		class/net/bonding_masters =
		class/net/skipped -> ../../devices/virtual/net/skipped
		class/net/lo -> ../../devices/virtual/net/lo
		class/net/eth0 -> ../../devices/pci0000:00/0000:00:03.0/virtio2/net/eth0
		class/net/gone0 -> ../../net/gone1
		class/net/away -> /devices/virtual/net/away
		devices/pci0000:00/0000:00:03.0/virtio2/net/eth0/ifindex = 2
		devices/pci0000:00/0000:00:03.0/virtio2/net/eth0/dev_port = 1
		devices/pci0000:00/0000:00:03.0/virtio2/net/eth0/address = 02:fc:00:00:00:01
		devices/pci0000:00/0000:00:03.0/virtio2/net/eth0/mtu = 1500
		devices/pci0000:00/0000:00:03.0/virtio2/net/eth0/operstate = up
		devices/pci0000:00/0000:00:03.0/virtio2/net/eth0/type = 1
		devices/pci0000:00/0000:00:03.0/virtio2/net/eth0/ifalias =
		devices/pci0000:00/0000:00:03.0/virtio2/net/eth0/phys_port_name = p0
		devices/pci0000:00/0000:00:03.0/virtio2/net/eth0/speed = -1
	`)
	nic := address(t, "0000:00:03.0")
	eth0 := NetDevice{
		Name: "eth0", Path: "devices/pci0000:00/0000:00:03.0/virtio2/net/eth0",
		Device: new("devices/pci0000:00/0000:00:03.0/virtio2"), PCI: &nic,
	}
	got, problems := ReadNetDevices(tree, func(name string) bool { return name == "skipped" })
	check(t, got, problems, []NetDevice{
		eth0,
		{Name: "lo", Path: "devices/virtual/net/lo", Virtual: true},
	}, `
class/net/away: interface left out: link leads to "/devices/virtual/net/away", want a relative path
class/net/gone0: interface left out: link leads to "net/gone1"`)

	attributes, problems := ReadNetAttributes(tree, eth0)
	check(t, attributes, problems, NetAttributes{
		Index: new(2), DevPort: new(1), PortName: new("p0"), MAC: new("02:fc:00:00:00:01"), MTU: new(1500),
		State: new("up"), Type: new(1),
	}, "")
}

func TestReadRDMADevices(t *testing.T) {
	tree := hosttest.Tree(t, `
		class/infiniband/mlx5_0 -> ../../devices/pci0000:8c/0000:91:00.0/infiniband/mlx5_0
		class/infiniband/rxe0 -> ../../devices/virtual/infiniband/rxe0
		class/infiniband/siw0 -> ../../devices/virtual/infiniband/siw0
		devices/pci0000:8c/0000:91:00.0/infiniband/mlx5_0/ports/1/link_layer = InfiniBand
		devices/virtual/infiniband/rxe0/ports/1/link_layer = Ethernet
		devices/virtual/infiniband/rxe0/parent = eth1
		devices/virtual/infiniband/siw0/ports/1/gid_attrs/ndevs/0 = eth2
		class/infiniband_verbs/abi_version = 6
		class/infiniband_verbs/uverbs0 -> ../../devices/pci0000:8c/0000:91:00.0/infiniband_verbs/uverbs0
		devices/pci0000:8c/0000:91:00.0/infiniband_verbs/uverbs0/ibdev = mlx5_0
		class/infiniband_mad/umad0 -> ../../devices/pci0000:8c/0000:91:00.0/infiniband_mad/umad0
		devices/pci0000:8c/0000:91:00.0/infiniband_mad/umad0/ibdev = mlx5_0
		class/infiniband_mad/issm0 -> ../../devices/pci0000:8c/0000:91:00.0/infiniband_mad/issm0
		devices/pci0000:8c/0000:91:00.0/infiniband_mad/issm0/ibdev = mlx5_0
		class/misc/rdma_cm -> ../../devices/virtual/misc/rdma_cm
		devices/virtual/misc/rdma_cm/abi_version = 2
	`)
	nic := address(t, "0000:91:00.0")
	got, problems := ReadRDMADevices(tree)
	check(t, got, problems, []RDMADevice{
		{
			Name: "mlx5_0", Device: new("devices/pci0000:8c/0000:91:00.0"), PCI: &nic, LinkLayer: new("InfiniBand"),
			CharDevices: []string{"/dev/infiniband/issm0", "/dev/infiniband/rdma_cm", "/dev/infiniband/umad0", "/dev/infiniband/uverbs0"},
		},
		{Name: "rxe0", NetDevice: new("eth1"), LinkLayer: new("Ethernet"), CharDevices: []string{"/dev/infiniband/rdma_cm"}},
		{Name: "siw0", NetDevice: new("eth2"), CharDevices: []string{"/dev/infiniband/rdma_cm"}},
	}, "")
}

// What a container's device files are made of: the files of one RDMA device are told from
// those of another, and numbered as the kernel does.
func TestReadRDMAFiles(t *testing.T) {
	tree := hosttest.Tree(t, `
		class/infiniband_verbs/abi_version = 6
		class/infiniband_verbs/uverbs0 -> ../../devices/pci0000:8c/0000:91:00.0/infiniband_verbs/uverbs0
		devices/pci0000:8c/0000:91:00.0/infiniband_verbs/uverbs0/ibdev = mlx5_0
		devices/pci0000:8c/0000:91:00.0/infiniband_verbs/uverbs0/dev = 231:192
		class/infiniband_verbs/uverbs7 -> ../../devices/virtual/infiniband_verbs/uverbs7
		devices/virtual/infiniband_verbs/uverbs7/ibdev = rxe0
		devices/virtual/infiniband_verbs/uverbs7/dev = nonsense
		class/infiniband_verbs/uverbs8 -> ../../devices/virtual/infiniband_verbs/uverbs8
		devices/virtual/infiniband_verbs/uverbs8/dev = 231:200
		class/infiniband_mad/issm0 -> ../../devices/pci0000:8c/0000:91:00.0/infiniband_mad/issm0
		devices/pci0000:8c/0000:91:00.0/infiniband_mad/issm0/ibdev = mlx5_0
		class/misc/rdma_cm/dev = 10:122
	`)
	nic := address(t, "0000:91:00.0")
	got, problems := ReadRDMAFiles(tree)
	check(t, got, problems, []RDMAFile{
		{Path: "/dev/infiniband/uverbs0", Kind: "uverbs", RDMADevice: "mlx5_0", PCI: &nic, Number: &DeviceNumber{231, 192}},
		{Path: "/dev/infiniband/uverbs7", Kind: "uverbs", RDMADevice: "rxe0"},
		{Path: "/dev/infiniband/issm0", Kind: "issm", RDMADevice: "mlx5_0", PCI: &nic},
		{Path: "/dev/infiniband/rdma_cm", Kind: "rdma_cm", Number: &DeviceNumber{10, 122}},
	}, `class/infiniband_verbs/uverbs7/dev: parse "nonsense": want a major and a minor number, such as 231:192`)
}

// The function decides over the name where it is known of the device.
func TestRDMADeviceNow(t *testing.T) {
	own, other := ptr.To(address(t, "0000:91:00.0")), ptr.To(address(t, "0000:92:00.0"))
	files := func(of ...any) (files []RDMAFile) {
		for i := 0; i < len(of); i += 2 {
			pci, _ := of[i+1].(*model.PCIAddress)
			files = append(files, RDMAFile{Kind: "uverbs", RDMADevice: of[i].(string), PCI: pci}, RDMAFile{Kind: "umad", RDMADevice: of[i].(string), PCI: pci})
		}
		return files
	}
	for _, test := range []struct {
		name     string
		files    []RDMAFile
		there    []string
		function *model.PCIAddress
		want     string
		err      string
	}{
		{"as it was", files("mlx5_2", own, "mlx5_3", other), []string{"mlx5_2", "mlx5_3"}, own, "mlx5_2", ""},
		{"named anew", files("mlx5_4", own, "mlx5_3", other), []string{"mlx5_3", "mlx5_4"}, own, "mlx5_4", ""},
		{"its name is another's", files("mlx5_4", own, "mlx5_2", other), []string{"mlx5_2", "mlx5_4"}, own, "mlx5_4", ""},
		{"in another namespace, and its name another's here", files("mlx5_4", own, "mlx5_2", other), []string{"mlx5_2"}, own, "", ""},
		{"in another namespace", files("mlx5_2", own), []string{"mlx5_3"}, own, "", ""},
		{"without a function", files("rxe0", nil), []string{"rxe0"}, nil, "", ""},
		{"made of software", files("mlx5_2", nil), []string{"mlx5_2"}, nil, "mlx5_2", ""},
		{"without the modules of its files", nil, []string{"mlx5_2"}, own, "mlx5_2", ""},
		{"two of one function", files("mlx5_1", own, "mlx5_2", own), []string{"mlx5_1", "mlx5_2"}, own, "mlx5_2", ""},
		{"two of one function, none of the name", files("mlx5_1", own, "mlx5_3", own), []string{"mlx5_1", "mlx5_3"}, own, "",
			"function 0000:91:00.0 has the RDMA devices mlx5_1, mlx5_3 by now, and none is called mlx5_2"},
		{"two of one function, its own in another namespace", files("mlx5_1", own, "mlx5_2", own), []string{"mlx5_1"}, own, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := RDMADeviceNow(test.files, test.there, test.function, "mlx5_2")
			message := ""
			if err != nil {
				message = err.Error()
			}
			if got != test.want || message != test.err {
				t.Errorf("got %q, %q; want %q, %q", got, message, test.want, test.err)
			}
		})
	}
}

func TestReadGIDs(t *testing.T) {
	tree := hosttest.Tree(t, `
		class/infiniband/mlx5_0 -> ../../devices/pci0000:8c/0000:91:00.0/infiniband/mlx5_0
		devices/pci0000:8c/0000:91:00.0/infiniband/mlx5_0/ports/1/gids/0 = fe80:0000:0000:0000:0000:00ff:fe00:0001
		devices/pci0000:8c/0000:91:00.0/infiniband/mlx5_0/ports/1/gid_attrs/types/0 = IB/RoCE v1
		devices/pci0000:8c/0000:91:00.0/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0 = dranet0
		devices/pci0000:8c/0000:91:00.0/infiniband/mlx5_0/ports/1/gids/1 = 0000:0000:0000:0000:0000:0000:0000:0000
		devices/pci0000:8c/0000:91:00.0/infiniband/mlx5_0/ports/1/gids/10 = 0000:0000:0000:0000:0000:ffff:0a00:0005
		devices/pci0000:8c/0000:91:00.0/infiniband/mlx5_0/ports/1/gid_attrs/types/10 = RoCE v2
		devices/pci0000:8c/0000:91:00.0/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/10 = dranet0
		devices/pci0000:8c/0000:91:00.0/infiniband/mlx5_0/ports/1/gids/2 = nonsense
		devices/pci0000:8c/0000:91:00.0/infiniband/mlx5_0/ports/1/gids/3 = 0000:0000:0000:0000:0000:ffff:0a00:0006
	`)
	got, problems := ReadGIDs(tree, "mlx5_0", 1)
	check(t, got, problems, []GID{
		{Index: 0, Address: netip.MustParseAddr("fe80::ff:fe00:1"), Type: new("IB/RoCE v1"), NetDevice: new("dranet0")},
		{Index: 3, Address: netip.MustParseAddr("10.0.0.6")},
		{Index: 10, Address: netip.MustParseAddr("10.0.0.5"), Type: new(RoCEv2), NetDevice: new("dranet0")},
	}, `class/infiniband/mlx5_0/ports/1/gids/2: parse "nonsense": want a GID, such as 0000:0000:0000:0000:0000:ffff:0a00:0001`)
	if got, problems := ReadGIDs(tree, "mlx5_9", 1); len(got) != 0 || len(problems) != 0 {
		t.Errorf("a device that is gone: %v, %v", got, problems)
	}
}

func TestReadRDMAPorts(t *testing.T) {
	tree := hosttest.Tree(t, `
		class/infiniband/mlx4_0 -> ../../devices/pci0000:8c/0000:91:00.0/infiniband/mlx4_0
		devices/pci0000:8c/0000:91:00.0/infiniband/mlx4_0/ports/2/state = 1: DOWN
		devices/pci0000:8c/0000:91:00.0/infiniband/mlx4_0/ports/2/gid_attrs/ndevs/0 = eth1
		devices/pci0000:8c/0000:91:00.0/infiniband/mlx4_0/ports/2/gid_attrs/ndevs/1 = eth1.100
		devices/pci0000:8c/0000:91:00.0/infiniband/mlx4_0/ports/1/state = 4: ACTIVE
		devices/pci0000:8c/0000:91:00.0/infiniband/mlx4_0/ports/1/gid_attrs/ndevs/3 = eth0
		devices/pci0000:8c/0000:91:00.0/infiniband/mlx4_0/ports/3/state = nonsense
	`)
	got, problems := ReadRDMAPorts(tree, "mlx4_0")
	check(t, got, problems, []RDMAPort{
		{Number: 1, State: new("ACTIVE"), NetDevice: new("eth0")}, {Number: 2, State: new("DOWN"), NetDevice: new("eth1")}, {Number: 3},
	}, `
devices/pci0000:8c/0000:91:00.0/infiniband/mlx4_0/ports/3/state: parse "nonsense": want a number and a word, such as 4: ACTIVE`)
	got, problems = ReadRDMAPorts(tree, "mlx5_9")
	check(t, got, problems, nil, "")
}

func TestReadDRM(t *testing.T) {
	tree := hosttest.Tree(t, `
		class/drm/version = drm 1.1.0 20060810
		class/drm/card0 -> ../../devices/pci0000:8c/0000:8f:00.0/drm/card0
		class/drm/card0-Virtual-1 -> ../../devices/pci0000:8c/0000:8f:00.0/drm/card0/card0-Virtual-1
		class/drm/renderD128 -> ../../devices/pci0000:8c/0000:8f:00.0/drm/renderD128
		class/drm/card1 -> ../../devices/platform/simple-framebuffer.0/drm/card1
	`)
	got, problems := ReadDRM(tree)
	check(t, got, problems, map[model.PCIAddress][]string{
		address(t, "0000:8f:00.0"): {"/dev/dri/card0", "/dev/dri/renderD128"},
	}, "")
}

// A physical function's links say which number a virtual one has now.
func TestVFIndex(t *testing.T) {
	tree := hosttest.Tree(t, `
		bus/pci/devices/0000:91:00.0 -> ../../../devices/pci0000:8c/0000:91:00.0
		devices/pci0000:8c/0000:91:00.0/virtfn0 -> ../0000:91:00.7
		devices/pci0000:8c/0000:91:00.0/virtfn12 -> ../0000:91:01.1
		devices/pci0000:8c/0000:91:00.0/virtfns = none`)
	for virtual, want := range map[string]int{"0000:91:00.7": 0, "0000:91:01.1": 12, "0000:91:01.2": -1} {
		n, err := VFIndex(tree, addressOf(t, "0000:91:00.0"), addressOf(t, virtual))
		if err != nil || (n == nil) != (want < 0) || n != nil && *n != want {
			t.Errorf("%s: %v, %v, want %d", virtual, n, err, want)
		}
	}
	if n, err := VFIndex(tree, addressOf(t, "0000:92:00.0"), addressOf(t, "0000:91:00.7")); n != nil || err == nil {
		t.Errorf("of no physical function: %v, %v", n, err)
	}
}

func addressOf(t *testing.T, text string) model.PCIAddress {
	t.Helper()
	a, err := model.ParsePCIAddress(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
