// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// gids has the GIDs of a port name an interface.
func (b *builder) gids(device, name string, port int, ndev string) {
	b.line("%s/infiniband/%s/ports/%d/gid_attrs/ndevs/0 = %s", device, name, port, ndev)
}

// verbs adds the file of verbs of an RDMA device.
func (b *builder) verbs(device, name string, number int) {
	b.line("class/infiniband_verbs/uverbs%d -> ../../%s/infiniband_verbs/uverbs%[1]d", number, device)
	b.line("%s/infiniband_verbs/uverbs%d/ibdev = %s", device, number, name)
}

// An RDMA device, its interface and its function are one NIC, in whatever way they hang
// together.
func TestScanLinksRDMADevices(t *testing.T) {
	const root = "pci0000:00/"
	function := func(b *builder, address string) string { return b.function(root+address, "0x020000", -1) }
	for _, test := range []struct {
		name     string
		build    func(b *builder)
		want     string
		problems string
	}{
		{"one of each", func(b *builder) {
			f := function(b, "0000:01:00.0")
			b.net(f, "eth0", 1, 0)
			b.rdma(f, "mlx5_0", "Ethernet")
		}, "0000:01:00.0 interface eth0 rdma mlx5_0\n", ""},
		{"software, by its parent", func(b *builder) {
			b.net(function(b, "0000:01:00.0"), "eth0", 1, 0)
			b.net(function(b, "0000:02:00.0"), "eth1", 2, 0)
			b.line("class/infiniband/rxe0 -> ../../devices/virtual/infiniband/rxe0")
			b.line("devices/virtual/infiniband/rxe0/parent = eth1")
		}, "0000:01:00.0 interface eth0\n0000:02:00.0 interface eth1 rdma rxe0\n", ""},
		{"software whose parent is in a pod", func(b *builder) {
			b.net(function(b, "0000:01:00.0"), "eth0", 1, 0)
			b.line("class/infiniband/rxe0 -> ../../devices/virtual/infiniband/rxe0")
			b.line("devices/virtual/infiniband/rxe0/parent = dranet0")
		}, "0000:01:00.0 interface eth0\n", ""},
		{"InfiniBand without an interface", func(b *builder) {
			b.rdma(b.function(root+"0000:01:00.0", "0x020700", -1), "mlx5_0", "InfiniBand")
		}, "0000:01:00.0 rdma mlx5_0\n", ""},
		{"a virtual function beside its physical one", func(b *builder) {
			pf, vf := function(b, "0000:01:00.0"), function(b, "0000:01:00.1")
			b.line("%s/physfn -> ../0000:01:00.0", vf)
			b.net(vf, "eth0v0", 2, 0)
			b.rdma(vf, "mlx5_1", "Ethernet")
			b.net(pf, "eth0", 1, 0)
			b.rdma(pf, "mlx5_0", "Ethernet")
		}, "0000:01:00.0 interface eth0 rdma mlx5_0\n0000:01:00.1 interface eth0v0 rdma mlx5_1\n", ""},
		{"one device of two ports", func(b *builder) {
			f := function(b, "0000:01:00.0")
			b.net(f, "eth1", 2, 1)
			b.net(f, "eth0", 1, 0)
			b.rdma(f, "mlx4_0", "Ethernet")
			b.gids(f, "mlx4_0", 1, "eth0")
			b.gids(f, "mlx4_0", 2, "eth1")
		}, "0000:01:00.0 interface eth0 rdma mlx4_0\n0000:01:00.0 port p1 interface eth1\n", ""},
		{"a device a port, listed the other way round", func(b *builder) {
			f := function(b, "0000:01:00.0")
			b.net(f, "eth0", 1, 0)
			b.net(f, "eth1", 2, 1)
			b.rdma(f, "bnxt_re0", "Ethernet")
			b.gids(f, "bnxt_re0", 1, "eth1")
			b.rdma(f, "bnxt_re1", "Ethernet")
			b.gids(f, "bnxt_re1", 1, "eth0")
		}, "0000:01:00.0 interface eth0 rdma bnxt_re1\n0000:01:00.0 port p1 interface eth1 rdma bnxt_re0\n", ""},
		{"a port in a pod that is called as one here", func(b *builder) {
			b.net(function(b, "0000:01:00.0"), "eth0", 1, 0)
			f := function(b, "0000:02:00.0")
			b.rdma(f, "mlx5_0", "Ethernet")
			b.gids(f, "mlx5_0", 1, "eth0")
		}, "0000:01:00.0 interface eth0\n0000:02:00.0 rdma mlx5_0 withheld: its network interface is in another network namespace\n", ""},
		{"several devices of a function with one interface", func(b *builder) {
			f := function(b, "0000:01:00.0")
			b.net(f, "eth0", 1, 0)
			b.rdma(f, "mlx5_0", "Ethernet")
			b.rdma(f, "mlx5_1", "Ethernet")
		}, "0000:01:00.0 interface eth0 rdma mlx5_0\n",
			"class/infiniband/mlx5_1: RDMA device left out: eth0 has mlx5_0 already\n"},
		{"several devices of a function without an interface", func(b *builder) {
			f := b.function(root+"0000:01:00.0", "0x020700", -1)
			for i, name := range []string{"ibp1s0", "mlx5_0", "mlx5_1"} {
				b.rdma(f, name, "InfiniBand")
				if i > 0 {
					b.verbs(f, name, i)
				}
			}
		}, "0000:01:00.0 rdma mlx5_0\n",
			"class/infiniband/mlx5_1: RDMA device left out: its function 0000:01:00.0 is that of mlx5_0 already\n" +
				"class/infiniband/ibp1s0: RDMA device left out: its function 0000:01:00.0 is that of mlx5_0 already\n"},
		{"an interface whose port has planes", func(b *builder) {
			f := function(b, "0000:01:00.0")
			b.net(f, "ib0", 1, 0)
			b.rdma(f, "mlx5_0", "InfiniBand")
			b.verbs(f, "mlx5_0", 0)
			b.rdma(f, "a_plane", "InfiniBand")
		}, "0000:01:00.0 interface ib0 rdma mlx5_0\n",
			"class/infiniband/a_plane: RDMA device left out: ib0 has mlx5_0 already\n"},
		{"a subfunction whose interface is in a pod", func(b *builder) {
			f := function(b, "0000:01:00.0")
			b.net(f, "eth0", 1, 0)
			b.rdma(f+"/mlx5_core.sf.4", "mlx5_1", "Ethernet")
		}, "0000:01:00.0 interface eth0\n",
			"class/infiniband/mlx5_1: RDMA device left out: its function 0000:01:00.0 is that of eth0 already\n"},
		{"a subfunction beside a function whose interface is in a pod", func(b *builder) {
			f := function(b, "0000:01:00.0")
			b.rdma(f+"/mlx5_core.sf.4", "mlx5_0", "Ethernet")
			b.verbs(f+"/mlx5_core.sf.4", "mlx5_0", 0)
			b.rdma(f, "mlx5_1", "Ethernet")
		}, "0000:01:00.0 rdma mlx5_1 withheld: its network interface is in another network namespace\n",
			"class/infiniband/mlx5_0: RDMA device left out: its function 0000:01:00.0 is that of mlx5_1 already\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := &builder{}
			test.build(b)
			m, problems := scanned(t, Sources{Sys: tree(t, b)}, Options{})
			if diff := cmp.Diff(test.want, nicLines(m.NICs)); diff != "" {
				t.Errorf("NICs (-want +got):\n%s", diff)
			}
			names := map[string]bool{}
			for _, n := range m.NICs {
				if name := slicecodec.NICName(n); names[name] {
					t.Errorf("two NICs are called %s", name)
				} else {
					names[name] = true
				}
			}
			if diff := cmp.Diff(test.problems, problemLines(problems)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
