// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/lab/cluster"
	"plumbline.dev/plumbline/lab/scenario"
	"plumbline.dev/plumbline/lab/scenario/shares"
)

// newShares has pods share a NIC.
func newShares(g *global) *cobra.Command {
	options := cluster.Options{OnHost: true}
	return &cobra.Command{
		Use:   "shares",
		Short: "Start a node on this host, have a HostPolicy share one of its NICs, and pods use it",
		Long: `shares has a HostPolicy offer a NIC to several pods at once. Two of them reach each other
by links of their own on it; a third one waits. The policy goes while they hold it, the
agent ends, and when all have gone the node is as before. It needs root.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := place(cmd, onHost, &options); err != nil {
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
			fmt.Fprintf(s.out, "\nPods on %s share a NIC\n\n", cluster.HostNodeName)
			return shares.Run(cmd.Context(), shares.Config{
				Cluster: s.on(cluster.HostNodeName), Kubectl: s.kubectl,
				Plumbline: scenario.Plumbline{Program: program, Kubeconfig: s.kubectl.Kubeconfig},
			})
		},
	}
}
