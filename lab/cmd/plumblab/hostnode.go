// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/lab/hostnode"
)

// newHostNode is what up starts for a node on this host, and what that starts
// again inside; people have no use for it.
func newHostNode() *cobra.Command {
	var inside, supervise bool
	cmd := &cobra.Command{
		Use:    hostnode.Command + " FOLDER",
		Short:  "Be the node on this host whose folder it is",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case inside:
				return hostnode.Inside(args[0], cmd.OutOrStdout())
			case supervise:
				return hostnode.Supervise(args[0], cmd.OutOrStdout())
			}
			return hostnode.Contain(cmd.Context(), args[0])
		},
	}
	cmd.Flags().BoolVar(&inside, "inside", false, "be its first process")
	cmd.Flags().BoolVar(&supervise, "supervise", false, "run its services")
	return cmd
}
