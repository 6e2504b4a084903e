// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"strings"
	"testing"
)

func roce(device string, gids ...GID) Port {
	return Port{Device: device, Number: 1, Ethernet: true, GIDs: gids}
}

func v4(index int) GID { return GID{Index: index, IPv4: true} }

func v6(index int) GID { return GID{Index: index} }

func TestEnvironment(t *testing.T) {
	for _, test := range []struct {
		name string
		nics []NIC
		want string // a variable a word
		why  string
	}{
		{"nothing", nil, "", ""},
		{"a RoCE NIC", []NIC{{Interface: "dranet0", Ports: []Port{roce("mlx5_0", v6(1), v4(3))}}},
			"NCCL_IB_HCA==mlx5_0:1 NCCL_IB_GID_INDEX=3 NCCL_SOCKET_IFNAME==dranet0 UCX_NET_DEVICES=mlx5_0:1", ""},
		{"two, in their order", []NIC{
			{Interface: "dranet1", Ports: []Port{roce("mlx5_10", v4(3))}},
			{Interface: "dranet0", Ports: []Port{roce("mlx5_1", v4(3))}},
		}, "NCCL_IB_HCA==mlx5_10:1,mlx5_1:1 NCCL_IB_GID_INDEX=3 NCCL_SOCKET_IFNAME==dranet1,dranet0 UCX_NET_DEVICES=mlx5_10:1,mlx5_1:1", ""},
		{"an index that both have, though not the first", []NIC{
			{Interface: "net0", Ports: []Port{roce("mlx5_0", v4(3), v4(5))}},
			{Interface: "net1", Ports: []Port{roce("mlx5_1", v4(5))}},
		}, "NCCL_IB_HCA==mlx5_0:1,mlx5_1:1 NCCL_IB_GID_INDEX=5 NCCL_SOCKET_IFNAME==net0,net1 UCX_NET_DEVICES=mlx5_0:1,mlx5_1:1", ""},
		{"IPv6 alone", []NIC{{Interface: "net0", Ports: []Port{roce("mlx5_0", v6(2))}}},
			"NCCL_IB_HCA==mlx5_0:1 NCCL_IB_GID_INDEX=2 NCCL_SOCKET_IFNAME==net0 UCX_NET_DEVICES=mlx5_0:1", ""},
		{"another index each", []NIC{
			{Interface: "net0", Ports: []Port{roce("mlx5_0", v4(3))}},
			{Interface: "net1", Ports: []Port{roce("mlx5_1", v6(1), v4(5))}},
		}, "NCCL_IB_HCA==mlx5_0:1,mlx5_1:1 NCCL_SOCKET_IFNAME==net0,net1 UCX_NET_DEVICES=mlx5_0:1,mlx5_1:1",
			"no index is that of a GID of every port, and NCCL takes one for all: mlx5_0:1 at 3, mlx5_1:1 at 1 and 5"},
		{"one index of two families", []NIC{
			{Interface: "net0", Ports: []Port{roce("mlx5_0", v4(3))}},
			{Interface: "net1", Ports: []Port{roce("mlx5_1", v6(3))}},
		}, "NCCL_IB_HCA==mlx5_0:1,mlx5_1:1 NCCL_SOCKET_IFNAME==net0,net1 UCX_NET_DEVICES=mlx5_0:1,mlx5_1:1",
			"no index is that of a GID of every port, and NCCL takes one for all: mlx5_0:1 at 3, mlx5_1:1 at 3"},
		{"no GID", []NIC{
			{Interface: "net0", Ports: []Port{roce("mlx5_0", v4(3))}}, {Interface: "net1", Ports: []Port{roce("mlx5_1")}},
		}, "NCCL_IB_HCA==mlx5_0:1,mlx5_1:1 NCCL_SOCKET_IFNAME==net0,net1 UCX_NET_DEVICES=mlx5_0:1,mlx5_1:1",
			"port mlx5_1:1 has no RoCE v2 GID of an address of its interface"},
		{"InfiniBand has no GID to choose", []NIC{{Ports: []Port{{Device: "mlx5_0", Number: 1}}}, {Interface: "ib0", Ports: []Port{{Device: "mlx5_1", Number: 2}}}},
			"NCCL_IB_HCA==mlx5_0:1,mlx5_1:2 NCCL_SOCKET_IFNAME==ib0 UCX_NET_DEVICES=mlx5_0:1,mlx5_1:2", ""},
		{"InfiniBand beside RoCE", []NIC{{Ports: []Port{{Device: "mlx5_0", Number: 1}}}, {Interface: "net0", Ports: []Port{roce("mlx5_1", v4(3))}}},
			"NCCL_IB_HCA==mlx5_0:1,mlx5_1:1 NCCL_IB_GID_INDEX=3 NCCL_SOCKET_IFNAME==net0 UCX_NET_DEVICES=mlx5_0:1,mlx5_1:1", ""},
		{"a NIC without RDMA", []NIC{{Interface: "net0"}}, "NCCL_SOCKET_IFNAME==net0 UCX_NET_DEVICES=net0", ""},
		{"and one with", []NIC{{Interface: "net0"}, {Interface: "net1", Ports: []Port{roce("mlx5_0", v4(3))}}},
			"NCCL_IB_HCA==mlx5_0:1 NCCL_IB_GID_INDEX=3 NCCL_SOCKET_IFNAME==net0,net1 UCX_NET_DEVICES=net0,mlx5_0:1", ""},
		{"a NIC of which nothing is in the pod", []NIC{{}}, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			env, why := Environment(test.nics)
			if got := strings.Join(env, " "); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if why != test.why {
				t.Errorf("left out for %q, want %q", why, test.why)
			}
		})
	}
}
