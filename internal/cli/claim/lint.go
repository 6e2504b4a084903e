// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
)

// options are the flags that lint and render share.
type options struct {
	files     []string
	recursive bool
	output    string
	cluster   cmdutil.ClusterFlags
}

func (o *options) addTo(cmd *cobra.Command) {
	o.cluster = cmdutil.NewNamespacedFlags()
	flags := cmd.Flags()
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "read a file, a folder or an address; - is the standard input. May be repeated; no cluster is asked")
	flags.BoolVarP(&o.recursive, "recursive", "R", false, "read the folders below a folder too")
	flags.StringVarP(&o.output, "output", "o", "text", "output format: text, json or yaml")
	o.cluster.AddFlags(flags)
}

// read reads what the command line names: files, or objects of the cluster.
func (o *options) read(ctx context.Context, args []string, stdin io.Reader) (*inputs, []reference, error) {
	if err := checkFormat(o.output); err != nil {
		return nil, nil, err
	}
	var refs []reference
	for _, arg := range args {
		ref, err := parseReference(arg)
		if err != nil {
			return nil, nil, err
		}
		refs = append(refs, ref)
	}
	switch {
	case len(o.files) > 0 && len(refs) > 0:
		return nil, nil, cmdutil.Usagef("-f reads files and %s is in the cluster: want one of them", args[0])
	case len(o.files) > 0:
		in, err := readFiles(o.files, o.recursive, stdin)
		return in, nil, err
	case len(refs) == 0:
		return nil, nil, cmdutil.Usagef("nothing to read: want -f FILE, or claim/NAME, template/NAME or class/NAME")
	}
	namespace, err := o.cluster.CurrentNamespace()
	if err != nil {
		return nil, nil, err
	}
	client, err := o.cluster.Client()
	if err != nil {
		return nil, nil, err
	}
	in, err := readCluster(ctx, client, namespace, refs)
	return in, refs, err
}

func newLintCommand() *cobra.Command {
	o := options{}
	cmd := &cobra.Command{
		Use:   "lint (-f FILE... | claim/NAME | template/NAME | class/NAME)...",
		Short: "Check the parameters and selectors of claims",
		Long: `Check ResourceClaims, ResourceClaimTemplates and DeviceClasses of any version of
the API, and the pods that name them: the parameters of dra.net and dra.cpu by the
drivers' own code, each layer by itself and merged for each request, and the selectors.

An error will not work: the driver would refuse it, or the selector does not
compile. A warning may not work: a selector that reads an attribute which a
device may lack, an attribute that no driver of ours publishes, a request that
takes more than it seems to. A note tells what the shipped claim policy warns of, or
refuses where it is told to. The exit code is 1 when there is an error.`,
		Example: `  # files and folders; no cluster is asked
  {{program}} claim lint -f claim.yaml -f classes/

  # what a chart or a kustomization makes
  kubectl kustomize examples/tpu-v6e-multi-nic/manifests | {{program}} claim lint -f -

  # what is in the cluster, with the device classes it names
  {{program}} claim lint claim/aligned-resource-claim template/rdma-net -n training

  # for a program
  {{program}} claim lint -f manifests/ -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			in, _, err := o.read(cmd.Context(), args, cmd.InOrStdin())
			if err != nil {
				return err
			}
			r := lint(in)
			if o.output == "text" {
				err = r.text(cmd.OutOrStdout())
			} else {
				err = cmdutil.Encode(cmd.OutOrStdout(), o.output, r)
			}
			if err == nil && r.Errors > 0 {
				return cmdutil.ErrReported
			}
			return err
		},
	}
	o.addTo(cmd)
	return cmd
}
