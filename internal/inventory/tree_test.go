// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"fmt"
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/model"
)

// builder writes a tree of the shape of /sys, line by line, for hosttest.Tree.
type builder struct{ strings.Builder }

func (b *builder) line(format string, args ...any) { fmt.Fprintf(b, format+"\n", args...) }

// function adds a PCI function; where is its directory's place below devices.
func (b *builder) function(where, class string, node int) string {
	dir := "devices/" + where
	b.line("bus/pci/devices/%s -> ../../../%s", path.Base(dir), dir)
	b.line("%s/class = %s", dir, class)
	b.line("%s/vendor = 0x15b3", dir)
	b.line("%s/device = 0x1021", dir)
	b.line("%s/numa_node = %d", dir, node)
	return dir
}

// net adds an interface of a device directory.
func (b *builder) net(device, name string, index, devPort int) {
	dir := device + "/net/" + name
	b.line("class/net/%s -> ../../%s", name, dir)
	b.line("%s/ifindex = %d", dir, index)
	b.line("%s/dev_port = %d", dir, devPort)
	b.line("%s/address = 02:00:00:00:%02x:%02x", dir, index>>8, index&0xff)
	b.line("%s/mtu = 1500", dir)
	b.line("%s/operstate = up", dir)
	b.line("%s/type = 1", dir)
}

// driver binds a kernel driver to a function.
func (b *builder) driver(device, name string) {
	b.line("%s/driver -> ../../../bus/pci/drivers/%s", device, name)
	b.line("bus/pci/drivers/%s/module = %s", name, name)
}

// rdma adds an RDMA device of a device directory.
func (b *builder) rdma(device, name, linkLayer string) {
	dir := device + "/infiniband/" + name
	b.line("class/infiniband/%s -> ../../%s", name, dir)
	b.line("%s/ports/1/link_layer = %s", dir, linkLayer)
}

// small is a machine with two NUMA nodes, a root on each, and one NIC of every
// kind there is.
func small() *builder {
	b := &builder{}
	b.line("devices/system/node/online = 0-1")
	b.line("devices/system/cpu/present = 0-3")
	for node, cpus := range []string{"0-1", "2-3"} {
		b.line("devices/system/node/node%d/cpulist = %s", node, cpus)
		b.line("devices/system/node/node%d/distance = %d %d", node, 10+11*node, 21-11*node)
		b.line("devices/system/node/node%d/meminfo = Node %d MemTotal: 1024 kB", node, node)
	}
	for cpu := range 4 {
		b.line("devices/system/cpu/cpu%d/topology/physical_package_id = %d", cpu, cpu/2)
		b.line("devices/system/cpu/cpu%d/topology/core_id = %d", cpu, cpu%2)
		b.line("devices/system/cpu/cpu%d/topology/core_cpus_list = %d", cpu, cpu)
	}
	b.function("pci0000:10/0000:10:01.0", "0x060400", 0)
	plain := b.function("pci0000:10/0000:10:01.0/0000:11:00.0", "0x020000", 0)
	b.net(plain, "eth0", 10, 0)
	b.rdma(plain, "mlx5_0", "Ethernet")
	twoPorts := b.function("pci0000:10/0000:10:01.0/0000:11:00.1", "0x020000", 0)
	b.net(twoPorts, "eth2", 12, 1)
	b.net(twoPorts, "eth1", 11, 0)
	b.rdma(twoPorts, "mlx4_0", "Ethernet")
	b.function("pci0000:10/0000:12:00.0", "0x030200", 0) // a GPU
	b.function("pci0000:80/0000:80:01.0", "0x060400", 1)
	ib := b.function("pci0000:80/0000:80:01.0/0000:81:00.0", "0x020700", 1)
	b.rdma(ib, "mlx5_1", "InfiniBand")
	other := b.function("pci0000:80/0000:80:01.0/0000:82:00.0", "0x120000", 1)
	b.rdma(other, "hl_0", "InfiniBand")
	accelerator := b.function("pci0000:80/0000:80:01.0/0000:82:00.1", "0x120000", 1)
	b.net(accelerator, "hl1", 16, 0)
	away := b.function("pci0000:80/0000:80:01.0/0000:83:00.0", "0x020000", 1)
	b.rdma(away, "mlx5_2", "Ethernet")
	virtio := b.function("pci0000:80/0000:84:00.0", "0x020000", 1)
	b.net(virtio+"/virtio3", "ens4", 13, 0)
	usb := b.function("pci0000:80/0000:85:00.0", "0x0c0330", -1)
	b.net(usb+"/usb1/1-1/1-1:1.0", "usb0", 14, 0)
	b.net("devices/virtual", "rxe-under", 15, 0)
	b.line("class/infiniband/rxe0 -> ../../devices/virtual/infiniband/rxe0")
	b.line("devices/virtual/infiniband/rxe0/parent = ens4")
	b.line("class/net/lo -> ../../devices/virtual/net/lo")
	b.line("devices/virtual/net/lo/type = 772")
	b.line("class/drm/card0 -> ../../devices/pci0000:10/0000:12:00.0/drm/card0")
	return b
}

func tree(t testing.TB, b *builder) fstest.MapFS {
	t.Helper()
	return hosttest.Tree(t, b.String())
}

// scanned fails the test where there is no machine.
func scanned(t testing.TB, src Sources, opt Options) (*model.Machine, []Problem) {
	t.Helper()
	m, problems, err := Scan(context.Background(), src, opt)
	if err != nil {
		t.Fatal(err)
	}
	return m, problems
}

// nicLines describes NICs as a person would: one line each.
func nicLines(nics []model.NIC) string {
	var b strings.Builder
	for _, n := range nics {
		words := []string{"-"}
		if n.PCI != nil {
			words[0] = n.PCI.String()
		}
		if n.Port != nil {
			words = append(words, "port", *n.Port)
		}
		if n.Interface != nil {
			words = append(words, "interface", n.Interface.Name)
		}
		if n.RDMA != nil {
			words = append(words, "rdma", n.RDMA.Name)
		}
		if n.NUMANode != nil {
			words = append(words, fmt.Sprint("node ", *n.NUMANode))
		}
		if n.Withheld != nil {
			words = append(words, "withheld:", *n.Withheld)
		}
		b.WriteString(strings.Join(words, " ") + "\n")
	}
	return b.String()
}

func problemLines(problems []Problem) string {
	var b strings.Builder
	for _, p := range problems {
		b.WriteString(p.String() + "\n")
	}
	return b.String()
}

func newAddress(s string) model.PCIAddress {
	a, err := model.ParsePCIAddress(s)
	if err != nil {
		panic(err)
	}
	return a
}
