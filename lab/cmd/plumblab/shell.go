// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// exitCode is a program's end that is no failure of plumblab's.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func newShell(g *global) *cobra.Command {
	return &cobra.Command{
		Use:   "shell [-- PROGRAM ARGS...]",
		Short: "Open a root shell on the node, or run one program there",
		Long: `shell joins this terminal with a root shell of the virtual machine; Ctrl-] leaves
it. With a program it runs only that, ends with its exit code, and needs neither
the API server nor a network.`,
		Example: "  plumblab shell\n  plumblab shell -- cat /proc/cmdline",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := g.open()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return c.Shell(cmd.Context(), os.Stdin, os.Stdout)
			}
			code, err := c.Run(cmd.Context(), args, cmd.OutOrStdout(), cmd.ErrOrStderr())
			if err == nil && code != 0 {
				err = exitCode(code)
			}
			return err
		},
	}
}
