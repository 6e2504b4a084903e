// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package uninstall is the command that looks whether anything of plumbline is left, in a
// cluster or on a host. It removes nothing: Helm does, and what its hooks run
// (internal/operator/uninstall, internal/agent/leave).
//
//	command.go  flags, and what is printed
//	cluster.go  objects of the cluster
//	host.go     files of this host
package uninstall

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/plural"
	"plumbline.dev/plumbline/internal/printable"
)

// Leftover is something of plumbline that is there.
type Leftover struct {
	// Kind is such as "daemonsets.apps" or "file"; Name has the namespace before a
	// slash, where there is one.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Found says what is left of what stays itself, such as labels of a node.
	Found string `json:"found,omitempty"`
	// Fix is what takes it away.
	Fix string `json:"fix"`
}

// Report is what the command prints for machines.
type Report struct {
	Left []Leftover `json:"left"`
	// Unknown are the kinds that could not be read, with the reason.
	Unknown []string `json:"unknown,omitempty"`
}

// exitLeft is the exit code where something is left, or nobody can tell.
const exitLeft = 3

type options struct {
	cluster  cmdutil.ClusterFlags
	check    bool
	host     bool
	root     string
	stateDir string
	kubelet  string
	cdiDir   string
	output   string
}

// NewCommand makes the command, in a group of the help text.
func NewCommand(group string) *cobra.Command {
	o := options{cluster: cmdutil.NewClusterFlags()}
	cmd := &cobra.Command{
		Use:     "uninstall --check",
		GroupID: group,
		Short:   "See whether anything of plumbline is left in a cluster, or on this host",
		Long: `See whether anything of plumbline is left: in the cluster objects with its label, its
definitions, slices of its drivers, claims with their devices, and what the operator
wrote to nodes; with --host on this host what agents keep there. Nothing is removed:
each line says what would. Without plumbline installed, nothing is to be left.

The exit code is 0 where nothing is left, 3 where something is or cannot be read.`,
		Example: `  # after helm uninstall: is the cluster as it was?
  {{program}} uninstall --check

  # and this node?
  sudo {{program}} uninstall --check --host`,
		Args: cmdutil.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !o.check {
				return cmdutil.Usagef("plumbline is taken away by \"helm uninstall plumbline -n plumbline-system\"; want --check to see what is left")
			}
			if err := cmdutil.CheckFormat(o.output); err != nil {
				return err
			}
			if cmd.Flags().Changed("root") && !o.host {
				return cmdutil.Usagef("--root is of this host: want --host with it")
			}
			return o.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.check, "check", false, "look, and remove nothing")
	flags.BoolVar(&o.host, "host", false, "look at this host instead of a cluster")
	flags.StringVar(&o.root, "root", "/", "the host's root directory, where a container has it mounted")
	flags.StringVar(&o.stateDir, "state-dir", "/var/lib/plumbline", "the agents' --state-dir")
	flags.StringVar(&o.kubelet, "kubelet-root", "/var/lib/kubelet", "the agents' --kubelet-root")
	// Not /var/run: a link that would lead out of --root.
	flags.StringVar(&o.cdiDir, "cdi-dir", "/run/cdi", "the agents' --cdi-dir")
	flags.StringVarP(&o.output, "output", "o", "text", "output format: text, json or yaml")
	o.cluster.AddFlags(flags)
	return cmd
}

func (o *options) run(ctx context.Context, out io.Writer) error {
	var report Report
	var err error
	if o.host {
		report, err = o.files()
	} else {
		var c cluster
		if c, err = o.connect(); err == nil {
			report, err = c.look(ctx)
		}
	}
	if err != nil {
		return err
	}
	report = report.printable()
	if o.output != "text" {
		err = cmdutil.Encode(out, o.output, report)
	} else {
		err = report.print(out)
	}
	if err == nil && len(report.Left)+len(report.Unknown) > 0 {
		err = cmdutil.ExitError{Code: exitLeft}
	}
	return err
}

// printable is a report without what a terminal would take for an order: names are
// anybody's.
func (r Report) printable() Report {
	p := Report{Left: []Leftover{}}
	for _, l := range r.Left {
		p.Left = append(p.Left, Leftover{Kind: l.Kind, Name: printable.Text(l.Name), Found: printable.Text(l.Found), Fix: printable.Text(l.Fix)})
	}
	for _, u := range r.Unknown {
		p.Unknown = append(p.Unknown, printable.Text(u))
	}
	return p
}

// print writes a report for people.
func (r Report) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	for _, l := range r.Left {
		fmt.Fprintf(w, "%s\t%s\t%s\n", l.Kind, l.Name, l.Found)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fixes := []string{}
	for _, l := range r.Left {
		if !slices.Contains(fixes, l.Fix) {
			fixes = append(fixes, l.Fix)
		}
	}
	for _, u := range r.Unknown {
		fmt.Fprintf(out, "cannot tell: %s\n", u)
	}
	switch {
	case len(r.Left) > 0:
		_, err := fmt.Fprintf(out, "\n%s left. To take away:\n  %s\n", plural.Count(len(r.Left), "thing is", "things are"), strings.Join(fixes, "\n  "))
		return err
	case len(r.Unknown) > 0:
		return nil
	}
	_, err := fmt.Fprintln(out, "nothing of plumbline is left")
	return err
}
