// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package netdev is the driver of NICs, dra.net: it moves a network interface
// from the host into a pod's network namespace, and back as it was.
//
//	config.go        layers of parameters to one configuration
//	read_host.go     what planning needs to know of the kernel
//	plan.go          allocated claim and facts to a complete record, or a refusal
//	pod_conflicts.go what two NICs of a pod cannot both have
//	stage.go         what belongs to the device or takes time (ethtool, eBPF
//	                 programs, DHCP), and its undoing
//	attach.go        NICs into the pod's namespace, all or none
//	detach.go        NICs back to the host, as they were
//	vf.go            virtual functions, set through their physical ones
//	rdma.go          RDMA devices, which go with a NIC or another way
//	container_edits.go their files, where these change with the move
//	renew_lease.go   DHCP leases renewed
//
// The record holds the host's state from before the move; undoing needs
// nothing else. A NIC is known by PCI address and permanent MAC, never by name
// or index, which change when it moves (nslink). What a NIC is on the host is
// hoststate's, what it shall be in the pod podstate's.
//
// How to speak rtnetlink is host/rtnl's business, which NICs may be offered is
// inventory's, and when to attach is the agent's.
package netdev
