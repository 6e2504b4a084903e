// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/lab/cluster"
	"plumbline.dev/plumbline/lab/scenario/policies"
)

// newPolicies has the node follow HostPolicies.
func newPolicies(g *global) *cobra.Command {
	options := cluster.Options{}
	cmd := &cobra.Command{
		Use:   "policies",
		Short: "Start the cluster, and have its node follow a HostPolicy of modules and settings",
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
	config.Cluster, config.Kubectl = s.on(node.Name), s.kubectl
	return config, nil
}
