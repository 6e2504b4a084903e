// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/lab/cluster"
	"plumbline.dev/plumbline/lab/image"
	"plumbline.dev/plumbline/lab/scenario/policies"
)

// driverModule is a driver that the guest's kernel has, and no NIC of the guest.
const driverModule = "mlx5_core"

// newPolicies has the node follow HostPolicies.
func newPolicies(g *global) *cobra.Command {
	options := cluster.Options{}
	cmd := &cobra.Command{
		Use:   "policies",
		Short: "Start the cluster, and have its node follow a HostPolicy of modules and settings, and a container load a driver",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := place(cmd, inVM, &options); err != nil {
				return err
			}
			config, err := g.policiesConfig(cmd, options)
			if err != nil {
				return err
			}
			fmt.Fprintf(config.Out, "\nA HostPolicy on %s\n\n", config.Node)
			return policies.Run(cmd.Context(), config)
		},
	}
	hardwareFlags(cmd, &options)
	return cmd
}

func (g *global) policiesConfig(cmd *cobra.Command, options cluster.Options) (config policies.Config, err error) {
	node, err := nodeOf(options)
	if err != nil {
		return config, err
	}
	s, err := g.start(cmd, options)
	if err != nil {
		return config, err
	}
	archive, err := s.builder.NICDriver(cmd.Context(), driverModule)
	if err != nil {
		return config, err
	}
	if err := s.cluster.AddImages(cmd.Context(), archive); err != nil {
		return config, err
	}
	config.Cluster, config.Kubectl = s.on(node.Name), s.kubectl
	config.Configure, config.DriverImage, config.DriverModule = s.cluster.Configure, image.NICDriver, driverModule
	return config, nil
}
