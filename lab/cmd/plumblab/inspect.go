// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"
)

func newStatus(g *global) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Say what runs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := g.open()
			if err != nil {
				return err
			}
			return c.Status(cmd.Context(), cmd.OutOrStdout())
		},
	}
}

func newKubectl(g *global) *cobra.Command {
	return &cobra.Command{
		Use:     "kubectl -- ARGS...",
		Short:   "Run the cluster's own kubectl",
		Example: "  plumblab kubectl -- get resourceslices\n  plumblab kubectl -- apply -k examples/gke-device-alignment/lab",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := g.open()
			if err != nil {
				return err
			}
			err = c.Kubectl(cmd.Context(), args...)
			// Its own output says why.
			if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
				return exitCode(max(exit.ExitCode(), 1))
			}
			return err
		},
	}
}

func newLogs(g *global) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs [COMPONENT]",
		Short: "Print a component's log; without a name, list the components",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := g.open()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				names, err := c.LogNames()
				if err != nil {
					return err
				}
				_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.Join(names, "\n"))
				return err
			}
			path, err := c.LogFile(args[0])
			if err != nil {
				return err
			}
			tail := []string{"-n", "+1", path}
			if follow {
				tail = append([]string{"-F"}, tail...)
			}
			// tail already knows how to follow a file that is replaced.
			run := exec.CommandContext(cmd.Context(), "tail", tail...)
			run.Stdout, run.Stderr = os.Stdout, os.Stderr
			if err := run.Run(); err != nil && cmd.Context().Err() == nil {
				return err
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on printing what is added")
	return cmd
}
