// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/nodeslices"
)

func newMachineSlicesCommand() *cobra.Command {
	var o nodeslices.Options
	cmd := &cobra.Command{
		Use:   "slices FILE|NAME",
		Short: "Print the ResourceSlices a node with that hardware would publish",
		Long: `Print as YAML the ResourceSlices that the agent would publish on a node with that
hardware, for all its drivers. A recording does not say which products its GPUs
are, so it has no slice of gpu.nvidia.com.`,
		Example: `  {{program}} machine slices a3-ultragpu-8g | less`,
		Args:    oneMachine,
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := machine.Open(args[0])
			if err != nil {
				return err
			}
			if wrong := validation.IsDNS1123Subdomain(o.Node); o.Node != "" && len(wrong) > 0 {
				return cmdutil.Usagef("--node-name %q: %s", o.Node, strings.Join(wrong, "; "))
			}
			return printSlices(cmd.Context(), file, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&o.Simulated, "simulated", false, "mark every GPU and NIC as simulated, for a node that does not exist")
	cmd.Flags().StringVar(&o.Node, "node-name", "", "node that would publish them (default: the machine's name)")
	return cmd
}

func printSlices(ctx context.Context, file *machine.File, o nodeslices.Options, out, errOut io.Writer) error {
	published, problems, err := nodeslices.OfFile(ctx, file, o)
	if err != nil {
		return err
	}
	for _, p := range problems {
		fmt.Fprintln(errOut, p)
	}
	for _, slice := range published {
		text, err := yaml.Marshal(slice)
		if err != nil {
			return fmt.Errorf("write slice %s: %w", slice.Name, err)
		}
		if _, err := fmt.Fprintf(out, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}
