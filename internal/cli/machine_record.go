// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/machine"
)

type recordOptions struct {
	output, name, sys string
	private           bool
}

func newMachineRecordCommand() *cobra.Command {
	o := recordOptions{}
	cmd := &cobra.Command{
		Use:   "record",
		Short: "Write this machine's hardware to one text file",
		Long: `Write what plumbline reads below /sys to one text file, links kept. No privilege
is needed; root adds the part of PCI configuration space that holds link speeds
for other readers.

The file holds no serial numbers, hardware addresses or host names. Interfaces
without hardware are left out.`,
		Args: cmdutil.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.output, "output", "o", "-", "file to write; - is standard output")
	flags.StringVar(&o.name, "name", "", "name of the machine, written into the file")
	flags.StringVar(&o.sys, "sysfs-root", "/sys", "directory to read in place of /sys")
	flags.BoolVar(&o.private, "with-mac", false, "also write hardware addresses, GUIDs and interface aliases")
	return cmd
}

func (o *recordOptions) run(ctx context.Context, out, errOut io.Writer) error {
	text, problems, err := machine.Record(ctx, os.DirFS(o.sys), machine.RecordOptions{Name: o.name, Arch: architecture(), Private: o.private})
	if err != nil {
		return err
	}
	for _, p := range problems {
		fmt.Fprintln(errOut, p)
	}
	if o.output == "-" {
		_, err = out.Write(text)
		return err
	}
	if err := os.WriteFile(o.output, text, 0o644); err != nil {
		return fmt.Errorf("write recording: %w", err)
	}
	return nil
}
