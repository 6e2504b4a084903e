// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/machine"
)

// NewMachineCommand is plumbline machine, with all below it.
func NewMachineCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "machine",
		Short:   "Record a machine's hardware, or work with machine files",
		GroupID: groupMachine,
		Long: `A machine file is one machine as text. There are two kinds, and every command
that takes a FILE takes both: a facts file (YAML, written by people, see
machines/) and a recording (written by record). A NAME is a shipped machine.`,
		Example: `  # this machine as a file, to attach to a bug report
  {{program}} machine record -o this.machine

  # what would a node with that hardware publish?
  {{program}} machine slices this.machine`,
		Args: cmdutil.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newMachineListCommand(), newMachineRecordCommand(), newMachineRenderCommand(), newMachineSlicesCommand(), newReadNCCLTopoCommand())
	return cmd
}

func newMachineListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the shipped machines",
		Args:  cmdutil.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return listMachines(cmd.OutOrStdout()) },
	}
}

func listMachines(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "NAME\tPROVIDER\tARCH\tSOCKETS\tNUMA NODES\tCPUS\tACCELERATORS\tNICS")
	for _, name := range machine.Names() {
		f, err := machine.OpenFacts(name)
		if err != nil {
			return err
		}
		cpus := 0
		sockets := map[int]bool{}
		for _, n := range f.Nodes() {
			cpus += n.CPUs.Size()
			sockets[n.Socket] = true
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%d\t%s\t%d\n",
			f.Name, f.Provider, f.Arch, len(sockets), len(f.NUMA), cpus, accelerators(f), len(f.NICs))
	}
	return table.Flush()
}

// accelerators is "8 x NVIDIA H200".
func accelerators(f *machine.Facts) string {
	if len(f.GPUs) == 0 {
		return "none"
	}
	text := fmt.Sprintf("%d", len(f.GPUs))
	if name := f.GPUs[0].Model; name != "" {
		text += " x " + name
	}
	return text
}

// oneMachine wants exactly one FILE or NAME.
func oneMachine(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return cmdutil.Usagef("want one machine, a file's path or a shipped machine's name (see machine list), got %d", len(args))
	}
	return nil
}
