// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/internal/cli/bench"
	"plumbline.dev/plumbline/internal/cli/claim"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/cli/doctor"
	"plumbline.dev/plumbline/internal/cli/explain"
	"plumbline.dev/plumbline/internal/cli/uninstall"
	"plumbline.dev/plumbline/internal/cli/verify"
)

// Exit codes.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// Groups of commands in the help text.
const (
	groupLook    = "look"
	groupClaim   = "claim"
	groupMachine = "machine"
)

// Run runs the command line args (without the program) and returns the exit
// code: 1 when something went wrong, 2 when the command line itself is wrong, or
// one that the command's help explains.
// program is argv[0]; called kubectl-plumbline, the help says "kubectl
// plumbline".
func Run(ctx context.Context, program string, args []string, out, errOut io.Writer) int {
	root := newRootCommand(programName(program))
	root.SetArgs(append([]string{}, args...)) // nil would mean os.Args
	root.SetOut(out)
	root.SetErr(errOut)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	var own cmdutil.ExitError
	if errors.As(err, &own) {
		return own.Code
	}
	if errors.Is(err, cmdutil.ErrReported) {
		return exitError
	}
	fmt.Fprintf(errOut, "%s: %s\n", root.DisplayName(), cmdutil.OneLine(err))
	if errors.As(err, new(cmdutil.UsageError)) {
		fmt.Fprintf(errOut, "run '%s --help' for usage\n", cmd.CommandPath())
		return exitUsage
	}
	return exitError
}

// programName is what the help calls the program.
func programName(argv0 string) string {
	base := filepath.Base(argv0)
	if plugin, ok := strings.CutPrefix(base, "kubectl-"); ok {
		return "kubectl " + plugin
	}
	return "plumbline"
}

func newRootCommand(name string) *cobra.Command {
	root := &cobra.Command{
		Use:   "plumbline",
		Short: "See, claim and prove GPU, NIC and CPU alignment on Kubernetes",
		Long: `plumbline gives a pod a GPU, a NIC and CPUs that sit on the same piece of
hardware, and proves it. This command shows what a machine is made of and who
holds it, checks claims, and shows what comes of their parameters.`,
		Example: `  # what is in this machine?
  {{program}} topo

  # what is in an A3 Ultra, as a picture for the wall?
  {{program}} topo --machine a3-ultragpu-8g -o svg > a3.svg

  # which pod holds what on a node?
  {{program}} topo --node gpu-node-1

  # is every running pod as it claims, and how near?
  {{program}} verify -A

  # will these claims work?
  {{program}} claim lint -f manifests/

  # why does this pod get no devices?
  {{program}} explain pod/trainer-0`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cmdutil.NoArgs,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: name},
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddGroup(
		&cobra.Group{ID: groupLook, Title: "See the hardware:"},
		&cobra.Group{ID: groupClaim, Title: "Claim it:"},
		&cobra.Group{ID: groupMachine, Title: "Machine files:"},
	)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cmdutil.UsageError{Err: err} })
	root.AddCommand(newTopoCommand(), claim.NewCommand(groupClaim), explain.NewCommand(groupClaim), NewMachineCommand(), verify.NewCommand(groupLook), bench.NewCommand(groupLook), doctor.NewCommand(groupLook), uninstall.NewCommand(groupLook), newVersionCommand())
	nameExamples(root, name)
	return root
}

// nameExamples writes the program's name into all examples.
func nameExamples(cmd *cobra.Command, name string) {
	cmd.Example = strings.ReplaceAll(cmd.Example, "{{program}}", name)
	for _, sub := range cmd.Commands() {
		nameExamples(sub, name)
	}
}
