// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/topoview"
	"plumbline.dev/plumbline/internal/topoview/published"
	"plumbline.dev/plumbline/internal/topoview/svg"
)

// nodesOptions are the flags of topo nodes.
type nodesOptions struct {
	output  string
	labels  string
	watch   bool
	cluster cmdutil.ClusterFlags
}

func newTopoNodesCommand() *cobra.Command {
	o := nodesOptions{cluster: cmdutil.NewClusterFlags()}
	cmd := &cobra.Command{
		Use:     "nodes [NAME...]",
		Aliases: []string{"node", "no"},
		Short:   "Show what is free on the nodes of the cluster, and who holds the rest",
		Long: `Show a line for each node that publishes devices: how many GPUs, NICs and CPUs
are free, out of how many, for how many more aligned GPU+NIC pairs and groups of
pairs there is room, and how many free devices are stranded because claims hold
their partners.

A pair is a GPU and a NIC below one PCIe root or, on machines where no two share
one, on one NUMA node. A group is of one NUMA node as far as one has that many
pairs. NICs without RDMA are no partners where others have it.`,
		Example: `  # all nodes
  {{program}} topo nodes

  # some nodes, with the claims that hold their devices
  {{program}} topo nodes -l pool=h200 -o wide
  {{program}} topo nodes gpu-node-1 gpu-node-2 -o wide

  # again after each change
  {{program}} topo nodes --watch

  # a picture, and for a program
  {{program}} topo nodes -o svg > cluster.svg
  {{program}} topo nodes -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.output, "output", "o", "text", "output format: text, wide, json, yaml or svg")
	flags.StringVarP(&o.labels, "selector", "l", "", "show the nodes that have these labels")
	flags.BoolVarP(&o.watch, "watch", "w", false, "show again after each change")
	o.cluster.AddFlags(flags)
	return cmd
}

func (o *nodesOptions) run(ctx context.Context, names []string, out, errOut io.Writer) error {
	if !slices.Contains([]string{"text", "wide", "json", "yaml", "svg"}, o.output) {
		return cmdutil.Usagef("output format %q: want text, wide, json, yaml or svg", o.output)
	}
	if len(names) > 0 && o.labels != "" {
		return cmdutil.Usagef("-l and names of nodes: want one of them")
	}
	client, err := o.cluster.Client()
	if err != nil {
		return err
	}
	return o.show(ctx, client, names, out, errOut)
}

func (o *nodesOptions) show(ctx context.Context, client kubernetes.Interface, names []string, out, errOut io.Writer) error {
	if o.labels != "" {
		var err error
		if names, err = listNodes(ctx, client, o.labels); err != nil {
			return err
		}
		if len(names) == 0 {
			return fmt.Errorf("no node has the labels %s", o.labels)
		}
	}
	if o.watch {
		changes, err := follow(ctx, client, "")
		if err != nil {
			return err
		}
		return cmdutil.ShowAll(ctx, out, o.output, changes, func(w io.Writer, now published.Cluster) error {
			return o.write(w, now.Overview(names))
		})
	}
	now, err := observe(ctx, client, "")
	if err != nil {
		return err
	}
	c := now.Overview(names)
	for _, name := range names {
		if !slices.ContainsFunc(c.Nodes, func(n topoview.ClusterNode) bool { return n.Name == name }) {
			if len(c.Nodes) == 0 && len(names) == 1 {
				return noSlices(ctx, client, name)
			}
			fmt.Fprintf(errOut, "left out: node %s has no ResourceSlice of GPUs, NICs or CPUs\n", name)
		}
	}
	return o.write(out, c)
}

func (o *nodesOptions) write(w io.Writer, c *topoview.Cluster) error {
	switch o.output {
	case "text", "wide":
		if len(c.Nodes) == 0 {
			_, err := fmt.Fprintln(w, "no node publishes devices: does plumbline-agent run?")
			return err
		}
		return topoview.ClusterText(w, c, o.output == "wide")
	case "svg":
		return svg.Cluster(w, c)
	}
	return cmdutil.Encode(w, o.output, c)
}
