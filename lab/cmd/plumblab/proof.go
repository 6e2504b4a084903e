// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/lab/cluster"
	"plumbline.dev/plumbline/lab/scenario"
	"plumbline.dev/plumbline/lab/scenario/misalign"
	"plumbline.dev/plumbline/lab/scenario/soak"
)

// newProof makes running pods misaligned and asks whether it is found.
func newProof(g *global) *cobra.Command {
	options := cluster.Options{OnHost: true}
	return &cobra.Command{
		Use:   "proof",
		Short: "Start a node on this host, make a running pod misaligned, and see whether two agents find it",
		Long: `proof installs an observer (deploy/observe.yaml) beside the agent that serves, looks
what it has open and what it left on the node, and compares what both say of running
pods. Then it makes a pod misaligned from the node, in several ways: both agents, an event
of each and the condition of the claim must report it within seconds, and report the
pod as claimed again when it is over. It needs root.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var config soak.Config
			if err := place(cmd, onHost, &options); err != nil {
				return err
			}
			c, err := g.prepare(cmd, options, &config)
			if err != nil {
				return err
			}
			source, err := g.checkout()
			if err != nil {
				return err
			}
			argv, kubeconfig, err := c.KubectlCommand()
			if err != nil {
				return err
			}
			fmt.Fprintf(config.Out, "\nA pod on %s is made misaligned before two agents\n\n", config.Node.Name)
			return misalign.Run(cmd.Context(), misalign.Config{
				Cluster: config.Cluster(), Kubectl: scenario.Kubectl{Command: argv, Kubeconfig: kubeconfig},
				Manifest: filepath.Join(source, "deploy", "observe.yaml"),
			})
		},
	}
}
