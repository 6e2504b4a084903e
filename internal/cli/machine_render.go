// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/machine"
)

func newMachineRenderCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "render FILE|NAME -o DIR",
		Short: "Turn a machine file into a directory like /sys",
		Long: `Turn a machine file into a directory like /sys. DIR must be missing or empty.

DIR also holds a link sys to itself, so that tools which want the directory
above /sys take the same DIR.`,
		Example: `  # look at an A3 Ultra with hwloc
  {{program}} machine render a3-ultragpu-8g -o /tmp/a3
  HWLOC_FSROOT=/tmp/a3 HWLOC_COMPONENTS=linux,linuxio,stop lstopo-no-graphics`,
		Args: oneMachine,
		RunE: func(cmd *cobra.Command, args []string) error {
			if dir == "" {
				return cmdutil.Usagef("want -o DIR, the directory to write")
			}
			file, err := machine.Open(args[0])
			if err != nil {
				return err
			}
			if err := file.Tree.WriteTo(dir); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", dir, file.Source)
			return err
		},
	}
	cmd.Flags().StringVarP(&dir, "output", "o", "", "directory to write (required)")
	return cmd
}
