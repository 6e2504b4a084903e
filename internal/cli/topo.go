// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/topoview"
	"plumbline.dev/plumbline/internal/topoview/published"
	"plumbline.dev/plumbline/internal/topoview/svg"
)

const defaultSys = "/sys"

// topoOptions are the flags of topo.
type topoOptions struct {
	stdin    io.Reader
	machine  string
	node     string
	sys      string
	output   string
	agents   string
	reserved string
	files    []string
	ascii    bool
	matrix   bool
	inPod    bool
	watch    bool
	cluster  cmdutil.ClusterFlags
}

func newTopoCommand() *cobra.Command {
	o := topoOptions{cluster: cmdutil.NewClusterFlags()}
	cmd := &cobra.Command{
		Use:     "topo",
		Short:   "Show where CPUs, GPUs and NICs sit, who holds them, and what is free",
		GroupID: groupLook,
		Long: `Show a machine as its sockets, NUMA nodes, PCIe roots, switches and devices, and
how many more aligned pairs and groups it has room for. A free device that no
aligned pair can have any more, because claims hold its partners, is marked as
stranded.

Without a flag it is this host, read from /sys; no privilege is needed. With
--machine it is a shipped machine or a machine file. With --node it is a node of
a cluster as its ResourceSlices describe it, and the claims that hold its
devices; where a device plugin gives GPUs away, the node's agent says which pods
have them, and this command runs a program in its pod (exec) to ask it. The nodes
of a cluster, a line each, are "topo nodes".

--matrix shows how near each two devices are, in the words of nvidia-smi topo -m.
--in-pod, run inside a pod, shows the interfaces of the pod with their RDMA
devices, PCI addresses and NUMA nodes; it needs /sys and nothing else.`,
		Example: `  # this host
  {{program}} topo

  # a shipped machine, and a file of your own
  {{program}} topo --machine a3-ultragpu-8g
  {{program}} topo --machine ./my-machine.yaml

  # a machine with claims on it, as kubectl get resourceclaims -o yaml prints them
  {{program}} topo --machine a3-ultragpu-8g -f claims.yaml --reserved-cpus 0,56

  # a node of the cluster, with the claims and pods that hold its devices
  {{program}} topo --node gpu-node-1

  # the same, drawn again whenever something changes
  {{program}} topo --node gpu-node-1 --watch

  # all nodes, and what is free where
  {{program}} topo nodes

  # how near is each GPU to each NIC?
  {{program}} topo --matrix

  # which RDMA device belongs to which interface, in this pod?
  {{program}} topo --in-pod

  # a picture
  {{program}} topo --machine azure-nd96isr-h100-v5 -o svg > azure.svg`,
		Args: cmdutil.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.stdin = cmd.InOrStdin()
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.machine, "machine", "", "show a shipped machine, by name, or a machine file, by path")
	flags.StringVar(&o.node, "node", "", "show a node of the cluster")
	flags.StringVar(&o.agents, "agent-namespace", cmdutil.AgentNamespace, "where plumbline's agents run; with --node, of whose GPUs a device plugin gives some away")
	flags.StringVar(&o.sys, "sysfs", defaultSys, "read this host from another directory, such as a rendered tree")
	flags.StringVarP(&o.output, "output", "o", "text", "output format: text, json, yaml or svg")
	flags.StringVar(&o.reserved, "reserved-cpus", "", "mark CPUs that no claim can have, such as 0-1,112-113")
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "take the ResourceClaims of a file as the holders of the machine's devices. May be repeated")
	flags.BoolVar(&o.ascii, "ascii", false, "draw the text tree with ASCII characters only")
	flags.BoolVarP(&o.matrix, "matrix", "m", false, "show how near each two devices are")
	flags.BoolVar(&o.inPod, "in-pod", false, "show the interfaces of the pod this runs in")
	flags.BoolVarP(&o.watch, "watch", "w", false, "draw again after each change")
	o.cluster.AddFlags(flags)
	cmd.AddCommand(newTopoNodesCommand())
	return cmd
}

// check refuses flags that contradict each other.
func (o *topoOptions) check() error {
	elsewhere, otherSys := o.node+o.machine != "", o.sys != defaultSys
	for _, c := range []struct {
		wrong bool
		text  string
	}{
		{o.node != "" && o.machine != "", "--node and --machine: want one of them"},
		{otherSys && elsewhere, "--sysfs is about this host: want neither --node nor --machine with it"},
		{o.inPod && elsewhere, "--in-pod is about the pod this runs in: want neither --node nor --machine with it"},
		{len(o.files) > 0 && o.machine == "", "-f gives a machine file its holders: want --machine with it"},
		{o.inPod && o.matrix, "--in-pod and --matrix: want one of them"},
		{o.inPod && o.watch, "--in-pod looks once: want no --watch with it"},
		{o.watch && o.machine != "", "a machine file does not change: want no --watch with --machine"},
		{o.watch && otherSys, "nothing tells of changes in another directory: want no --watch with --sysfs"},
		{o.output == "svg" && (o.matrix || o.inPod), `output format "svg": want text, json or yaml with --matrix and --in-pod`},
	} {
		if c.wrong {
			return cmdutil.Usagef("%s", c.text)
		}
	}
	if !slices.Contains([]string{"text", "json", "yaml", "svg"}, o.output) {
		return cmdutil.Usagef("output format %q: want text, json, yaml or svg", o.output)
	}
	return nil
}

func (o *topoOptions) run(ctx context.Context, out, errOut io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	if o.inPod {
		return o.pod(ctx, out, errOut)
	}
	if o.watch {
		views, err := o.views(ctx)
		if err != nil {
			return err
		}
		return cmdutil.ShowAll(ctx, out, o.output, views, o.write)
	}
	v, err := o.view(ctx)
	if err != nil {
		return err
	}
	for _, line := range v.Left {
		fmt.Fprintln(errOut, "left out:", line)
	}
	return o.write(out, v)
}

// view is what the flags name.
func (o *topoOptions) view(ctx context.Context) (*published.View, error) {
	switch {
	case o.node != "":
		s, err := o.nodeSource()
		if err != nil {
			return nil, err
		}
		return s.load(ctx)
	case o.machine != "":
		s, err := loadMachine(ctx, o.machine)
		if err != nil {
			return nil, err
		}
		v := s.view()
		return v, holdersFrom(v, o.files, o.stdin)
	}
	s, err := loadHost(ctx, o.sys)
	if err != nil {
		return nil, err
	}
	return s.view(), nil
}

// views are what the flags name, as it changes.
func (o *topoOptions) views(ctx context.Context) (<-chan *published.View, error) {
	if o.node == "" {
		return watchHost(ctx)
	}
	s, err := o.nodeSource()
	if err != nil {
		return nil, err
	}
	return s.watch(ctx)
}

// write draws a view in the output format.
func (o *topoOptions) write(w io.Writer, v *published.View) error {
	if o.matrix {
		m := topoview.BuildMatrix(v.Machine, name(v))
		if o.output == "text" {
			return topoview.MatrixText(w, m)
		}
		return cmdutil.Encode(w, o.output, m)
	}
	reserved, err := slicecodec.ParseCPUs(o.reserved)
	if err != nil {
		return cmdutil.Usagef("--reserved-cpus: %v", err)
	}
	v.Options.Reserved = v.Options.Reserved.Union(reserved)
	t := v.Topology()
	switch o.output {
	case "text":
		return topoview.Text(w, t, topoview.TextOptions{ASCII: o.ascii})
	case "svg":
		return svg.Topology(w, t)
	}
	return cmdutil.Encode(w, o.output, t)
}

// name is what the view is called.
func name(v *published.View) string {
	for _, name := range []string{v.Options.Name, v.Machine.Name} {
		if name != "" {
			return name
		}
	}
	return "machine"
}
