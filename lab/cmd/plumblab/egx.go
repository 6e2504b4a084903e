// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/lab/cluster"
	"plumbline.dev/plumbline/lab/image"
	"plumbline.dev/plumbline/lab/scenario"
	"plumbline.dev/plumbline/lab/scenario/egx"
)

// egxNode is the article's machine, with processors for as many pods as run at once.
var egxNode = cluster.Options{Machine: "egx-t4-cx5", CPUs: 4, MemoryMiB: 4096, Guest: cluster.GuestRDMA, GPUs: cluster.GPUsSimulated}

// newEGX runs the pods of the article on the Network Operator.
func newEGX(g *global) *cobra.Command {
	options := egxNode
	var where string
	cmd := &cobra.Command{
		Use:   "egx",
		Short: "Start the machine of NVIDIA's article on the Network Operator, and run its pods as printed",
		Long: `egx applies examples/network-operator-egx and does what the article has its reader do: pods
with rdma/hca_shared_devices_a in their limits show net1 and ping each other, ib_write_bw
runs between them, and pods with a GPU have one of the NIC's NUMA node. One pod begins anew
while plumbline's operator is away, the pool is deleted while a pod has an address, and in
the end the node must be as before. With --node host there are no RDMA devices and no GPUs,
and what needs them is left out. Soft RoCE takes packets from the link alone that it was
made on, so that the lab makes a device on each pod's net1: hardware uses the NIC's.`,
		Example: `  plumblab egx
  sudo plumblab egx --node host --name native`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if where == onHost {
				options.Guest, options.GPUs = "", ""
			}
			if err := place(cmd, where, &options); err != nil {
				return err
			}
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
			source, err := g.checkout()
			if err != nil {
				return err
			}
			fmt.Fprintf(s.out, "\nThe pods of NVIDIA's article on %s\n\n", node.Name)
			on := s.on(node.Name)
			if !options.OnHost {
				on.Image = image.Perftest
			}
			return egx.Run(cmd.Context(), egx.Config{
				Cluster: on, Kubectl: s.kubectl, Example: filepath.Join(source, "examples", "network-operator-egx"), Hardware: !options.OnHost,
				Plumbline: scenario.Plumbline{Program: program, Kubeconfig: s.kubectl.Kubeconfig},
			})
		},
	}
	cmd.Flags().StringVar(&where, "node", inVM, whereUsage)
	versionFlags(cmd, &options.Versions)
	return cmd
}
