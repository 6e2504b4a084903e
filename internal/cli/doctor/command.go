// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package doctor is the command that checks hosts: flags, and findings as text. What is
// checked lives in internal/doctor.
package doctor

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/doctor"
	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/printable"
)

// options are the flags.
type options struct {
	output string
	all    bool
	root   string
}

// Report is what the command prints for machines.
type Report struct {
	Node     string          `json:"node"`
	Findings []hosts.Finding `json:"findings"`
}

// NewCommand makes the command, in a group of the help text.
func NewCommand(group string) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:     "doctor",
		GroupID: group,
		Short:   "Check whether this host is ready for pods with GPUs and NICs",
		Long: `Check whether this host is ready for pods with GPUs and NICs on one PCIe root:
kernel modules, PCIe links and their settings, RDMA devices and ports, interfaces and
the container runtime. It reads /sys, /proc, /dev, /boot and /run, changes nothing, and
needs no cluster. Some registers of PCIe devices only root may read.

A line is printed for what is wrong or unknown, with the file that says so, what would
be right and how to get there; --all prints what is right, too.

The exit code is 0 where nothing is wrong, 3 where something is.`,
		Example: `  # what keeps this host from being ready?
  sudo {{program}} doctor

  # everything that was looked at, and for a program
  sudo {{program}} doctor --all
  sudo {{program}} doctor -o json`,
		Args: cmdutil.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.output, "output", "o", "text", "output format: text, json or yaml")
	flags.BoolVar(&o.all, "all", false, "print what is right, too")
	flags.StringVar(&o.root, "root", "/", "the host's root directory, where a container has it mounted")
	return cmd
}

// exitWrong is the exit code where something is wrong.
const exitWrong = 3

func (o *options) run(ctx context.Context, out io.Writer) error {
	if err := cmdutil.CheckFormat(o.output); err != nil {
		return err
	}
	report, err := o.examine(ctx)
	if err != nil {
		return err
	}
	if o.output != "text" {
		err = cmdutil.Encode(out, o.output, report)
	} else {
		err = writeText(out, report, o.all)
	}
	if err == nil && doctor.Count(report.Findings)[hosts.Wrong] > 0 {
		err = cmdutil.ExitError{Code: exitWrong}
	}
	return err
}

func (o *options) examine(ctx context.Context) (Report, error) {
	name, err := os.Hostname()
	if err != nil {
		return Report{}, err
	}
	if _, err := os.Stat(filepath.Join(o.root, "sys/bus")); err != nil {
		return Report{}, fmt.Errorf("--root %s: no host's root directory: %w", o.root, err)
	}
	sources := inventory.Sources{Sys: os.DirFS(filepath.Join(o.root, "sys"))}
	if o.root == "/" {
		links, err := inventory.OpenNetlink(netns.Current, nil)
		if err != nil {
			return Report{}, err
		}
		defer links.Close()
		sources.Links = links
	}
	m, _, err := inventory.Scan(ctx, sources, inventory.Options{Name: name})
	if err != nil {
		return Report{}, fmt.Errorf("read the devices of %s: %w", name, err)
	}
	return Report{Node: name, Findings: doctor.Run(doctor.Host{Machine: m, Files: os.DirFS(o.root)})}, nil
}

// writeText prints a line for each finding, and below what is wrong what would be right.
func writeText(out io.Writer, report Report, all bool) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CHECK\tVERDICT\tSEVERITY\tOF\tFOUND\tIN")
	for _, f := range report.Findings {
		if f.Verdict == hosts.OK && !all {
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", f.Check, f.Verdict, f.Severity, printable.Text(dash(f.Subject)), printable.Text(f.Found), printable.Text(f.Source))
	}
	n := doctor.Count(report.Findings)
	if all || n[hosts.Wrong]+n[hosts.Unknown] > 0 {
		if err := t.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(out)
	}
	said := map[[2]string]bool{}
	for _, f := range report.Findings {
		key := [2]string{f.Check, f.Want + f.Fix}
		if f.Verdict != hosts.Wrong || said[key] {
			continue
		}
		said[key] = true
		fmt.Fprintf(out, "%s: want %s\n  %s\n", f.Check, f.Want, f.Fix)
	}
	if len(said) > 0 {
		fmt.Fprintln(out)
	}
	_, err := fmt.Fprintf(out, "%s: %d ok, %d wrong, %d unknown\n", report.Node, n[hosts.OK], n[hosts.Wrong], n[hosts.Unknown])
	return err
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
