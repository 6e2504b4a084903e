// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/model"
)

var sameSets = cmp.Comparer(func(a, b cpuset.CPUSet) bool { return a.Equals(b) })

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
		devices/pci0000:8c/0000:8c:00.0/0000:91:00.0/sriov_numvfs = 1

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
			TotalVFs: new(8), NumVFs: new(1),
		},
		{PCIPath: vf, Class: 0x020000, Vendor: 0x15b3, Device: 0x101e, PhysicalFunction: &nic},
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
