// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"slices"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
)

func newRenderCommand() *cobra.Command {
	o := options{}
	cmd := &cobra.Command{
		Use:   "render (claim/NAME | template/NAME | -f FILE)...",
		Short: "Show the parameters that devices get, and where each comes from",
		Long: `Show the effective parameters of dra.net and dra.cpu and where each value comes
from: the default, the device class or the claim; the upper layer wins field by
field, and a list replaces the list below it. What is not shown of a NIC stays as
it is on the host.

Of an allocated claim it is shown for each device. Of others, of templates and of
files it is shown for each request that can be given such a device; device classes
that are not among the files are those that plumbline ships, if it has them.
What the node's cloud adds beneath is known on the node only.

The exit code is 1 when the driver would refuse what comes out.`,
		Example: `  # what did each device of this claim get?
  {{program}} claim render claim/aligned-resource-claim

  # what will come of this template and this class?
  {{program}} claim render -f template.yaml -f deviceclass.yaml

  # the configuration alone
  {{program}} claim render -f template.yaml -o json | jq '.[0].config'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			in, refs, err := o.read(cmd.Context(), args, cmd.InOrStdin())
			if err != nil {
				return err
			}
			for _, ref := range refs {
				if ref.kind == kindClass {
					return cmdutil.Usagef("class/%s: a class is part of what a request gets: want claim/NAME or template/NAME", ref.name)
				}
			}
			all, err := render(in)
			if err != nil {
				return err
			}
			if o.output == "text" {
				err = writeText(cmd.OutOrStdout(), all)
			} else {
				err = cmdutil.Encode(cmd.OutOrStdout(), o.output, all)
			}
			if err == nil && slices.ContainsFunc(all, func(r rendered) bool { return len(r.Mistakes) > 0 }) {
				return cmdutil.ErrReported
			}
			return err
		},
	}
	o.addTo(cmd)
	return cmd
}
