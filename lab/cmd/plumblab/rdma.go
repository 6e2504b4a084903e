// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/lab/cluster"
	"plumbline.dev/plumbline/lab/image"
	"plumbline.dev/plumbline/lab/scenario"
	"plumbline.dev/plumbline/lab/scenario/rdma"
)

// rdmaNode is small: two pods, each with a CPU of both NUMA nodes and more left, and NICs of
// which two have nothing else to do.
var rdmaNode = cluster.Options{Machine: "egx-t4-cx5", CPUs: 8, MemoryMiB: 4096, Guest: cluster.GuestRDMA}

// newRDMA measures RDMA between pods.
func newRDMA(g *global) *cobra.Command {
	options := rdmaNode
	cmd := &cobra.Command{
		Use:   "rdma",
		Short: "Start a node whose soft RoCE works in pods, and measure RDMA between two pods",
		Long: `rdma does what up --guest rdma does. Then two pods claim a NIC with an RDMA device each, the
agent is killed, and they run ib_write_lat and ib_write_bw; then a pod with a CPU of its
NIC's NUMA node and one with a CPU of the other run ib_write_lat against themselves, and
plumbline bench compares such CPUs. Counters of the claimed devices must show that it went
over them, plumbline verify must say where pods sit, and the host must have its RDMA devices
again when they are gone. Processors, NICs and RDMA are emulated: the figures mean nothing
beside real ones. Both NICs are of one node, joined by a hub of QEMU's: two nodes
with emulated processors are too slow on one host.`,
		Example: `  plumblab rdma
  plumblab rdma --exclusive --name exclusive`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			node, err := nodeOf(options)
			if err != nil {
				return err
			}
			s, err := g.start(cmd, options)
			if err != nil {
				return err
			}
			program, err := s.builder.Program("plumbline")
			if err != nil {
				return err
			}
			fmt.Fprintf(s.out, "\nRDMA between two pods on %s, emulated\n\n", node.Name)
			on := s.on(node.Name)
			on.Image = image.Perftest
			return rdma.Run(cmd.Context(), rdma.Config{
				Cluster: on, Kubectl: s.kubectl, Exclusive: options.ExclusiveRDMA,
				Plumbline: scenario.Plumbline{Program: program, Kubeconfig: s.kubectl.Kubeconfig},
			})
		},
	}
	cmd.Flags().BoolVar(&options.ExclusiveRDMA, "exclusive", false, "boot the node with RDMA devices that belong to one network namespace each (rdma system set netns exclusive)")
	versionFlags(cmd, &options.Versions)
	return cmd
}
