// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/lab/cluster"
	"plumbline.dev/plumbline/lab/scenario/pinning"
	"plumbline.dev/plumbline/lab/scenario/soak"
)

// newCPUs has pods with and without CPUs of their own live together.
func newCPUs(g *global) *cobra.Command {
	options := cluster.Options{}
	cmd := &cobra.Command{
		Use:   "cpus",
		Short: "Start the cluster, and watch who runs on CPUs that claims hold",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var config soak.Config
			if err := place(cmd, inVM, &options); err != nil {
				return err
			}
			if _, err := g.prepare(cmd, options, &config); err != nil {
				return err
			}
			fmt.Fprintf(config.Out, "\nPods with and without CPUs of their own on %s\n\n", config.Node.Name)
			return pinning.Run(cmd.Context(), config.Cluster())
		},
	}
	hardwareFlags(cmd, &options)
	return cmd
}
