// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/topoview"
	"plumbline.dev/plumbline/internal/topoview/poster"
)

const defaultSys = "/sys"

// topoOptions are the flags of topo.
type topoOptions struct {
	machine string
	node    string
	sys     string
	output  string
	ascii   bool
	cluster cmdutil.ClusterFlags
}

func newTopoCommand() *cobra.Command {
	o := topoOptions{cluster: cmdutil.NewClusterFlags()}
	cmd := &cobra.Command{
		Use:     "topo",
		Short:   "Show where CPUs, GPUs and NICs sit, and who holds them",
		GroupID: groupLook,
		Long: `Show a machine as its sockets, NUMA nodes, PCIe roots, switches and devices.

Without a flag it is this host, read from /sys; no privilege is needed. With
--machine it is a shipped machine or a machine file. With --node it is a node of
a cluster as its ResourceSlices describe it, and the claims that hold its
devices.`,
		Example: `  # this host
  {{program}} topo

  # a shipped machine, and a file of your own
  {{program}} topo --machine a3-ultragpu-8g
  {{program}} topo --machine ./my-machine.yaml

  # a node of the cluster, with the claims and pods that hold its devices
  {{program}} topo --node gpu-node-1

  # a picture
  {{program}} topo --machine azure-nd96isr-h100-v5 -o svg > azure.svg`,
		Args: cmdutil.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.machine, "machine", "", "show a shipped machine, by name, or a machine file, by path")
	flags.StringVar(&o.node, "node", "", "show a node of the cluster")
	flags.StringVar(&o.sys, "sysfs", defaultSys, "read this host from another directory, such as a rendered tree")
	flags.StringVarP(&o.output, "output", "o", "text", "output format: text, json, yaml or svg")
	flags.BoolVar(&o.ascii, "ascii", false, "draw the text tree with ASCII characters only")
	o.cluster.AddFlags(flags)
	return cmd
}

func (o *topoOptions) run(ctx context.Context, out, errOut io.Writer) error {
	write, err := o.writer()
	if err != nil {
		return err
	}
	if o.node != "" && o.machine != "" {
		return cmdutil.Usagef("--node and --machine: want one of them")
	}
	if o.sys != defaultSys && o.node+o.machine != "" {
		return cmdutil.Usagef("--sysfs is about this host: want neither --node nor --machine with it")
	}
	t, err := o.topology(ctx, errOut)
	if err != nil {
		return err
	}
	return write(out, t)
}

func (o *topoOptions) topology(ctx context.Context, errOut io.Writer) (*topoview.Topology, error) {
	if o.node != "" {
		return o.nodeTopology(ctx, errOut)
	}
	var s scanned
	var err error
	if o.machine != "" {
		s, err = loadMachine(ctx, o.machine)
	} else {
		s, err = loadHost(ctx, o.sys)
	}
	if err != nil {
		return nil, err
	}
	for _, p := range s.problems {
		fmt.Fprintln(errOut, "left out:", p)
	}
	view := topoview.Options{Source: s.source, Notes: s.notes}
	if s.facts != nil {
		view.Products = products(s.facts)
		view.Notes = append(view.Notes, "memory sizes and distances of NUMA nodes are assumed: a facts file does not state them")
	}
	return topoview.Build(s.machine, view), nil
}

func (o *topoOptions) nodeTopology(ctx context.Context, errOut io.Writer) (*topoview.Topology, error) {
	client, err := o.cluster.Client()
	if err != nil {
		return nil, err
	}
	t, left, err := loadNode(ctx, client, o.node)
	for _, line := range left {
		fmt.Fprintln(errOut, "left out:", line)
	}
	return t, err
}

// writer is the function for the output format.
func (o *topoOptions) writer() (func(io.Writer, *topoview.Topology) error, error) {
	switch o.output {
	case "text":
		return func(w io.Writer, t *topoview.Topology) error {
			return topoview.Text(w, t, topoview.TextOptions{ASCII: o.ascii})
		}, nil
	case "json":
		return topoview.JSON, nil
	case "yaml":
		return writeYAML, nil
	case "svg":
		return poster.SVG, nil
	}
	return nil, cmdutil.Usagef("output format %q: want text, json, yaml or svg", o.output)
}

// writeYAML writes the JSON form as YAML.
func writeYAML(w io.Writer, t *topoview.Topology) error {
	text, err := yaml.Marshal(t)
	if err != nil {
		return fmt.Errorf("write topology: %w", err)
	}
	_, err = w.Write(text)
	return err
}
