// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package claim has the claim commands: new (package generate), lint, render and
// simulate. Parameters are checked and merged by the driver's own code, for manifests
// and for objects of a cluster.
package claim

import (
	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/internal/cli/claim/generate"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
)

// NewCommand returns the claim commands.
func NewCommand(group string) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "claim",
		Short:   "Write claims, check them, and say where they fit",
		GroupID: group,
		Long: `Write ResourceClaims for aligned devices, and say on which nodes they fit. Check
the parameters of claims, their templates and DeviceClasses, and show what comes of
them, by the code of the driver that applies them.`,
		Example: `  # a claim for four aligned pairs of a GPU and a NIC, with CPUs beside them
  {{program}} claim new training --gpus 4 --nics 4 --cpus 16 --template > training.yaml

  # where does it fit, and how many times?
  {{program}} claim simulate -f training.yaml --machine a3-ultragpu-8g

  # is everything right in these manifests?
  {{program}} claim lint -f manifests/

  # what will each request of this template get?
  {{program}} claim render -f template.yaml -f deviceclass.yaml

  # what did each device of this claim get, and who said so?
  {{program}} claim render claim/aligned-resource-claim`,
		Args: cmdutil.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(generate.NewCommand(), newLintCommand(), newRenderCommand(), newSimulateCommand())
	return cmd
}
