// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/lab/hostnode"
)

// newHostNode is what up starts for a node on this host, and what that starts
// again inside; people have no use for it.
func newHostNode() *cobra.Command {
	var check, inside, supervise bool
	cmd := &cobra.Command{
		Use:    hostnode.Command + " FOLDER",
		Short:  "Be the node on this host whose folder it is",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case check:
				return hostnode.CheckInside()
			case inside:
				return hostnode.Init(args[0], cmd.OutOrStdout())
			case supervise:
				return hostnode.Supervise(args[0], cmd.OutOrStdout())
			}
			return hostnode.Contain(cmd.Context(), args[0])
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "only try the mounts")
	cmd.Flags().BoolVar(&inside, "inside", false, "be its first process")
	cmd.Flags().BoolVar(&supervise, "supervise", false, "run its services")
	return cmd
}

// newCheckHost lets scripts choose where to run a node.
func newCheckHost() *cobra.Command {
	return &cobra.Command{
		Use:   "check-host",
		Short: "Say whether this host can have a node on its own processors (--node host)",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkHost(cmd); err != nil {
				return err
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "this host can have a node")
			return err
		},
	}
}

func checkHost(cmd *cobra.Command) error {
	program, err := os.Executable()
	if err != nil {
		return errors.Join(errors.New("find plumblab"), err)
	}
	return hostnode.Check(cmd.Context(), program)
}
