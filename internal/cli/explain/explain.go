// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package explain is the command that says why claims are not allocated: it
// gathers what internal/explain needs, from a cluster, from files, or from
// machine files, and prints the report. It decides nothing.
package explain

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/explain"
	"plumbline.dev/plumbline/internal/explain/snapshot"
)

// options are the flags.
type options struct {
	files     []string
	recursive bool
	machines  []string
	nodes     []string
	all       bool
	selector  string
	output    string
	gates     string
	version   string
	cluster   cmdutil.ClusterFlags
	// client connects to the cluster; tests put their own here.
	client func() (kubernetes.Interface, error)
}

// NewCommand returns the command.
func NewCommand(group string) *cobra.Command {
	o := &options{}
	cmd := o.command(group)
	return cmd
}

func (o *options) command(group string) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "explain (claim/NAME | pod/NAME | template/NAME | -f FILE | -A)...",
		Aliases: []string{"why"},
		Short:   "Say why a claim or pod gets no devices, and what would help",
		GroupID: group,
		Long: `Say for every node whether the devices of a claim, or of all claims of a pod, can
be allocated: by the rules of the scheduler, solved exactly. Where they cannot,
say which request cannot be met, what devices there are and who holds them, the
smallest set of requests and constraints that conflict, and changes that help.
Each change is tried before it is proposed.

Claims and pods are those of the cluster; without any named, all of the namespace
that have no devices yet, with -A of all namespaces. With -f they are those of
files. Nodes are those of the cluster, unless the files have ResourceSlices or
--machine names machines: then no cluster is read, and device classes that are
not among the files are those that plumbline ships. Nothing is written anywhere.

Feature gates of the scheduler cannot be read from a cluster: the defaults of its
version are assumed, and --feature-gates says what differs. That of derived attributes
shows in what the API server keeps of them; of claims in files it is asked by a dry run.

The exit code is 0 when everything fits or is allocated, 1 when something does
not fit or something went wrong, and 2 when the command line is wrong.`,
		Example: `  # why is this pod pending?
  {{program}} explain pod/trainer-0 -n research

  # what is wrong with anything that waits for devices?
  {{program}} why -A

  # would this claim fit on the nodes of the cluster?
  {{program}} explain -f claim.yaml

  # on three A3 Ultra unused machines?
  {{program}} explain -f claim.yaml --machine a3-ultragpu-8g=3

  # on nodes as they were recorded
  kubectl get resourceslices,deviceclasses,resourceclaims -A -o yaml > state.yaml
  {{program}} explain -f state.yaml -f claim.yaml -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.cluster = cmdutil.NewNamespacedFlags()
	if o.client == nil {
		o.client = o.cluster.Client
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "read a file, a folder or an address; - is the standard input. May be repeated")
	flags.BoolVarP(&o.recursive, "recursive", "R", false, "read the folders below a folder too")
	flags.StringArrayVar(&o.machines, "machine", nil, "a shipped machine by name, or a machine file by path, as a node; with =COUNT that many. May be repeated")
	flags.StringArrayVar(&o.nodes, "node", nil, "look at this node only. May be repeated")
	flags.BoolVarP(&o.all, "all-namespaces", "A", false, "explain what waits for devices in all namespaces")
	flags.StringVarP(&o.selector, "selector", "l", "", "explain only objects with these labels")
	flags.StringVarP(&o.output, "output", "o", "text", "output format: text, json or yaml")
	flags.StringVar(&o.gates, "feature-gates", "", "feature gates of the scheduler that differ from the defaults, such as DRAListTypeAttributes=true")
	flags.StringVar(&o.version, "kubernetes-version", "", "version whose scheduler is meant, such as 1.36 (default: the cluster's, else the newest known)")
	o.cluster.AddFlags(flags)
	return cmd
}

func (o *options) run(ctx context.Context, args []string, stdin io.Reader, out, errOut io.Writer) error {
	if err := cmdutil.CheckFormat(o.output); err != nil {
		return err
	}
	if _, err := labels.Parse(o.selector); err != nil {
		return cmdutil.Usagef("--selector %q: %v", o.selector, err)
	}
	refs, err := cmdutil.ParseReferences(args, cmdutil.KindClaim, cmdutil.KindPod, cmdutil.KindTemplate)
	if err != nil {
		return err
	}
	if len(o.machines) > 0 && len(o.files) == 0 {
		return cmdutil.Usagef("--machine: name the files with the claims too, with -f")
	}
	if len(o.files) > 0 && o.all {
		return cmdutil.Usagef("-f and --all-namespaces: all of the files is explained already")
	}
	known, subjects, err := o.gather(ctx, refs, stdin, errOut)
	if err != nil {
		return err
	}
	if len(subjects) == 0 {
		return nothing(o, refs, errOut)
	}
	reports := make([]*explain.Report, 0, len(subjects))
	fits := true
	for _, s := range subjects {
		r, err := explain.Explain(ctx, known, s)
		if err != nil {
			return fmt.Errorf("explain %s: %w", s, err)
		}
		reports = append(reports, r)
		fits = fits && (r.Verdict == explain.Fits || r.Verdict == explain.Allocated)
	}
	if err := write(out, o.output, reports); err != nil {
		return err
	}
	if !fits {
		return cmdutil.ErrReported
	}
	return nil
}

// nothing says that there is nothing to explain: a mistake where files were
// given.
func nothing(o *options, refs []cmdutil.Reference, errOut io.Writer) error {
	if len(o.files) > 0 && len(refs) == 0 {
		return errors.New("no ResourceClaim, ResourceClaimTemplate or pod with claims among the files")
	}
	_, err := fmt.Fprintln(errOut, "nothing waits for devices")
	return err
}

// gather reads what is needed: from files and machine files where they have
// nodes, else from the cluster.
func (o *options) gather(ctx context.Context, refs []cmdutil.Reference, stdin io.Reader, errOut io.Writer) (*snapshot.Cluster, []explain.Subject, error) {
	in := &objects{}
	if len(o.files) > 0 {
		var err error
		if in, err = readFiles(o.files, o.recursive, stdin, o.namespace()); err != nil {
			return nil, nil, err
		}
	}
	source := "files"
	if len(o.machines) > 0 {
		published, err := machineSlices(ctx, o.machines, errOut)
		if err != nil {
			return nil, nil, err
		}
		in.slices = append(in.slices, published...)
		source = "machine files"
	}
	known, subjects, err := o.subjects(ctx, in, refs, source)
	for i := range subjects {
		subjects[i].Notes = append(subjects[i].Notes, in.notes...)
	}
	return known, subjects, err
}

// subjects finds what to explain, and on which nodes.
func (o *options) subjects(ctx context.Context, in *objects, refs []cmdutil.Reference, source string) (*snapshot.Cluster, []explain.Subject, error) {
	if len(in.slices) == 0 {
		return o.live(ctx, in, refs)
	}
	if err := in.addShippedClasses(); err != nil {
		return nil, nil, err
	}
	return o.offline(in, refs, source)
}

func (o *options) offline(in *objects, refs []cmdutil.Reference, source string) (*snapshot.Cluster, []explain.Subject, error) {
	known, err := o.snapshot(in, source, allocation.NewestMinor)
	if err != nil {
		return nil, nil, err
	}
	subjects, err := in.subjects(refs, o.namespace(), o.selector, true)
	return known, subjects, err
}

// namespace is where claims are looked for that are named without one.
func (o *options) namespace() string {
	namespace, err := o.cluster.CurrentNamespace()
	if err != nil || namespace == "" {
		return "default"
	}
	return namespace
}

// snapshot sorts what was read.
func (o *options) snapshot(in *objects, source string, minor int) (*snapshot.Cluster, error) {
	if o.version != "" {
		var err error
		if minor, err = parseVersion(o.version); err != nil {
			return nil, err
		}
	}
	gates, err := allocation.OverrideGates(allocation.DefaultGates(minor), minor, o.gates)
	if err != nil {
		return nil, cmdutil.UsageError{Err: fmt.Errorf("--feature-gates: %w", err)}
	}
	if in.keepsDerived || explain.Kept(in.claims, in.templates) {
		var note string
		if gates, note = explain.GatesOfKept(gates, o.gates); note != "" {
			in.notes = append(in.notes, note)
		}
	}
	s := snapshot.Objects{
		Source: source, Minor: minor, Gates: gates, Nodes: in.nodes, Slices: in.slices, Classes: in.classes, Claims: in.claims,
		TaintRules: in.rules,
	}
	known := snapshot.New(s)
	if len(o.nodes) == 0 {
		return known, nil
	}
	return known.Only(o.nodes)
}

// write writes reports; of machine formats always as a list.
func write(w io.Writer, format string, reports []*explain.Report) error {
	if format != "text" {
		return cmdutil.Encode(w, format, reports)
	}
	for i, r := range reports {
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if err := r.Text(w); err != nil {
			return err
		}
	}
	return nil
}
