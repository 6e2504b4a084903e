// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/lab/cluster"
	"plumbline.dev/plumbline/lab/scenario"
	"plumbline.dev/plumbline/lab/scenario/observe"
)

// newObserve has DRANET serve and plumbline look.
func newObserve(g *global) *cobra.Command {
	options := cluster.Options{OnHost: true, Observe: true}
	cmd := &cobra.Command{
		Use:   "observe",
		Short: "Start a node on this host whose NICs DRANET serves, and have plumbline look at its pods",
		Long: `observe installs DRANET, and plumbline's chart with observe: true. A pod with a NIC of
DRANET's is verified, one that wants more NICs than there are is explained, and every command
that reads a cluster is asked. It needs root.`,
		Example: "  plumblab observe\n  plumblab observe --kubernetes 1.34",
		Args:    cobra.NoArgs,
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
			archive, _, err := s.builder.DRANET(cmd.Context())
			if err != nil {
				return err
			}
			if err := installDRANET(cmd.Context(), s.cluster, archive, true); err != nil {
				return err
			}
			fmt.Fprintf(s.out, "\nplumbline looks at pods with NICs of DRANET's on %s, %s\n\n", cluster.HostNodeName, options.Versions)
			return observe.Run(cmd.Context(), observe.Config{
				Cluster: s.on(cluster.HostNodeName), NICs: cluster.StandIns,
				Plumbline: scenario.Plumbline{Program: program, Kubeconfig: s.kubectl.Kubeconfig},
			})
		},
	}
	versionFlags(cmd, &options.Versions)
	return cmd
}
