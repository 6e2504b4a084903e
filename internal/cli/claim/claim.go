// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
)

// NewCommand returns the claim commands.
func NewCommand(group string) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "claim",
		Short:   "Check claims, and show what comes of their parameters",
		GroupID: group,
		Long: `Check the parameters of ResourceClaims, their templates and DeviceClasses, and
show what comes of them, by the code of the driver that applies them.`,
		Example: `  # is everything right in these manifests?
  {{program}} claim lint -f manifests/

  # what will each request of this template get?
  {{program}} claim render -f template.yaml -f deviceclass.yaml

  # what did each device of this claim get, and who said so?
  {{program}} claim render claim/aligned-resource-claim`,
		Args: cmdutil.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newNewCommand(), newLintCommand(), newRenderCommand())
	return cmd
}
