// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/lab/cluster"
	"plumbline.dev/plumbline/lab/image"
	"plumbline.dev/plumbline/lab/scenario"
	"plumbline.dev/plumbline/lab/scenario/gpus"
)

// newGPUs breaks NVIDIA's DRA driver.
func newGPUs(g *global) *cobra.Command {
	options := cluster.Options{Machine: "a3-ultragpu-8g", GPUs: cluster.GPUsOfNVIDIA}
	cmd := &cobra.Command{
		Use:   "gpus",
		Short: "Start the cluster with NVIDIA's DRA driver, and break driver and GPUs under pods",
		Long: `gpus does what up --gpu nvidia does. Then it kills NVIDIA's driver while a pod waits
for its GPU, has a GPU report an error and another one fall off the bus, and takes the
driver from the node and brings it back. Pods must keep what they have, plumbline explain
must say why others wait, and these must get a GPU in the end. At last it gives the driver
other features: two pods share a GPU, another one has a MIG device, which must outlive the
driver and be gone with its claim. In the end NVIDIA's device plugin gives the same GPUs to
pods without claims, and topo, doctor and verify must tell of it.`,
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
			plugin, err := s.builder.NVIDIADevicePlugin(cmd.Context())
			if err != nil {
				return err
			}
			if err := s.cluster.AddImages(cmd.Context(), plugin); err != nil {
				return err
			}
			fmt.Fprintf(s.out, "\nFaults of GPUs and of NVIDIA's driver on %s\n\n", node.Name)
			return gpus.Run(cmd.Context(), gpus.Config{
				Cluster: s.on(node.Name), Kubectl: s.kubectl, Configure: s.cluster.ConfigureNVIDIA, DevicePlugin: image.NVIDIADevicePlugin,
				Plumbline: scenario.Plumbline{Program: program, Kubeconfig: s.kubectl.Kubeconfig},
			})
		},
	}
	versionFlags(cmd, &options.Versions)
	return cmd
}
