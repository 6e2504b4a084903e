// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
)

// options are the flags that lint, render and simulate share: what to read, and the
// output format.
type options struct {
	files     []string
	recursive bool
	output    string
	cluster   cmdutil.ClusterFlags
}

func (o *options) addTo(cmd *cobra.Command) {
	o.cluster = cmdutil.NewNamespacedFlags()
	flags := cmd.Flags()
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "read a file, a folder or an address; - is the standard input. May be repeated; no cluster is read")
	flags.BoolVarP(&o.recursive, "recursive", "R", false, "read the folders below a folder too")
	flags.StringVarP(&o.output, "output", "o", "text", "output format: text, json or yaml")
	o.cluster.AddFlags(flags)
}

// read reads what the command line names: files, or objects of the cluster.
func (o *options) read(ctx context.Context, args []string, stdin io.Reader) (*inputs, []cmdutil.Reference, error) {
	if err := cmdutil.CheckFormat(o.output); err != nil {
		return nil, nil, err
	}
	refs, err := cmdutil.ParseReferences(args, cmdutil.KindClaim, cmdutil.KindTemplate, cmdutil.KindClass)
	if err != nil {
		return nil, nil, err
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
	if err != nil {
		return nil, nil, err
	}
	config, err := o.cluster.ToRESTConfig()
	if err != nil {
		return nil, nil, err
	}
	return in, refs, in.readPools(ctx, config)
}
