// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// NIC is one NIC as a container sees it.
type NIC struct {
	// Interface is the network interface's name in the pod; empty without one.
	Interface string
	// Ports are those of its RDMA device that are the NIC's; none without one.
	Ports []Port
}

// Port is a port of an RDMA device.
type Port struct {
	// Device is the RDMA device, such as mlx5_0, and Number the port's.
	Device string
	Number int
	// Ethernet: it is RoCE's, whose users choose a GID.
	Ethernet bool
	// GIDs are the port's RoCE v2 GIDs of addresses that the NIC has in the pod.
	GIDs []GID
}

// String is as NCCL and UCX write a port, such as mlx5_0:1.
func (p Port) String() string { return p.Device + ":" + strconv.Itoa(p.Number) }

// GID is an entry of a port's GID table.
type GID struct {
	Index int
	// IPv4: it is an IPv4 address.
	IPv4 bool
}

// GIDIndexEnv is the variable that says which GID of each port NCCL takes.
const GIDIndexEnv = "NCCL_IB_GID_INDEX"

// Environment are the variables, as NAME=value, of a container that has the NICs, in
// their order. A variable of which there is nothing to say is left out. why is the reason
// for leaving out NCCL_IB_GID_INDEX where NICs have RoCE; empty where it is there.
func Environment(nics []NIC) (env []string, why string) {
	var interfaces, ports, devices []string
	var roce []Port
	for _, n := range nics {
		if n.Interface != "" {
			interfaces = append(interfaces, n.Interface)
		}
		for _, p := range n.Ports {
			ports = append(ports, p.String())
			if p.Ethernet {
				roce = append(roce, p)
			}
		}
		devices = append(devices, n.forUCX()...)
	}
	if len(ports) > 0 {
		env = append(env, "NCCL_IB_HCA="+exactly(ports))
	}
	index, why := gidIndex(roce)
	if index != nil {
		env = append(env, GIDIndexEnv+"="+strconv.Itoa(*index))
	}
	if len(interfaces) > 0 {
		env = append(env, "NCCL_SOCKET_IFNAME="+exactly(interfaces))
	}
	if len(devices) > 0 {
		env = append(env, "UCX_NET_DEVICES="+strings.Join(devices, ","))
	}
	return env, why
}

// exactly is NCCL's form of a list that matches these names alone: without the sign
// mlx5_1 would match mlx5_10.
func exactly(names []string) string { return "=" + strings.Join(names, ",") }

// forUCX is how UCX calls the NIC: by its ports, or by its interface where it has no RDMA.
func (n NIC) forUCX() []string {
	var names []string
	for _, p := range n.Ports {
		names = append(names, p.String())
	}
	if len(names) == 0 && n.Interface != "" {
		names = append(names, n.Interface)
	}
	return names
}

// gidIndex is the index that every port has a RoCE v2 GID at, since NCCL takes one for
// all: that of IPv4 addresses before that of IPv6 ones, as NCCL chooses by itself
// (NCCL_IB_ADDR_FAMILY). It is nil where there is none, with the reason.
func gidIndex(ports []Port) (index *int, why string) {
	if len(ports) == 0 {
		return nil, ""
	}
	for _, ipv4 := range []bool{true, false} {
		for _, g := range ports[0].GIDs {
			if g.IPv4 == ipv4 && !slices.ContainsFunc(ports, func(p Port) bool { return !slices.Contains(p.GIDs, g) }) {
				return &g.Index, ""
			}
		}
	}
	var have []string
	for _, p := range ports {
		if len(p.GIDs) == 0 {
			return nil, fmt.Sprintf("port %s has no RoCE v2 GID of an address of its interface", p)
		}
		have = append(have, fmt.Sprintf("%s at %s", p, indexes(p.GIDs)))
	}
	return nil, "no index is that of a GID of every port, and NCCL takes one for all: " + strings.Join(have, ", ")
}

func indexes(gids []GID) string {
	var words []string
	for _, g := range gids {
		words = append(words, strconv.Itoa(g.Index))
	}
	return strings.Join(words, " and ")
}
