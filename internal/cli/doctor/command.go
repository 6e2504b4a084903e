// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package doctor is the command that checks hosts: flags, what is read, and findings as
// text. What is checked, and how hosts are compared, lives in internal/doctor.
//
//	command.go  flags, and what they may not be
//	host.go     this host
//	cluster.go  the nodes of a cluster, their reports and agents
//	nodes.go    what there is to say of each node
//	gpus.go     what NVIDIA's driver publishes of it
//	profile.go  --learn and --expect
//	bundle.go   --bundle
//	standins.go what stands for addresses in it
//	text.go     findings for people
package doctor

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
)

// options are the flags.
type options struct {
	cluster  cmdutil.ClusterFlags
	output   string
	all      bool
	root     string
	node     string
	labels   string
	allNodes bool
	agents   string
	learn    string
	expect   string
	bundle   string
	// addresses leaves a bundle's as they are.
	addresses bool
}

// NewCommand makes the command, in a group of the help text.
func NewCommand(group string) *cobra.Command {
	o := options{cluster: cmdutil.NewClusterFlags()}
	cmd := &cobra.Command{
		Use:     "doctor",
		GroupID: group,
		Short:   "Check whether this host, or the nodes of a cluster, are ready for pods with GPUs and NICs",
		Long: `Check whether this host is ready for pods with GPUs and NICs on one PCIe root:
kernel modules, PCIe links and their settings, RDMA devices and ports, interfaces, the
container runtime and the kubelet. It reads /sys, /proc, /dev, /boot, /etc, /run and
/var/lib/kubelet, changes nothing, and needs no cluster. Some registers of PCIe devices
only root may read.

With --node, -l or -A it reads instead what the agents of a cluster found on their
nodes (HostReports), the worst node first, and says of which nodes nothing is known.
With -l and -A it also compares nodes of one kind with each other: the same machine and
processor with the same models of GPUs. A node that is not as most of its kind are is
named, with both values. Of GPUs it says whether NVIDIA's driver publishes them, and
with what claims need.

A line is printed for what is wrong or unknown, with the file that says so, what would
be right and how to get there; --all prints what is right, too, as far as reports hold
it.

--learn writes the profile of a good host into a file: its kernel, settings and devices.
--expect compares hosts with it. What is taken out of the file may be anything.

--bundle writes an archive for whoever helps: what is printed, for people and programs,
of this host its hardware, versions and modules, and of nodes their HostReports. It holds
no secret, no command line of the kernel and no environment; stand-ins replace addresses
and names of hosts.

The exit code is 0 where nothing is wrong, 3 where something is.`,
		Example: `  # what keeps this host from being ready?
  sudo {{program}} doctor

  # everything that was looked at, and for a program
  sudo {{program}} doctor --all
  sudo {{program}} doctor -o json

  # one node, some nodes, and the odd one out of all
  {{program}} doctor --node gpu-node-1
  {{program}} doctor -l pool=h200
  {{program}} doctor -A

  # is every node of the pool as this good one?
  {{program}} doctor --node gpu-node-1 --learn h200.yaml
  {{program}} doctor -l pool=h200 --expect h200.yaml

  # for a report of a problem
  sudo {{program}} doctor --bundle support.tar.gz`,
		Args: cmdutil.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(cmd.Flags().Changed); err != nil {
				return err
			}
			return o.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.output, "output", "o", "text", "output format: text, json or yaml")
	flags.BoolVar(&o.all, "all", false, "print what is right, too")
	flags.StringVar(&o.root, "root", "/", "the host's root directory, where a container has it mounted")
	flags.StringVar(&o.node, "node", "", "what was found on this node of the cluster")
	flags.StringVarP(&o.labels, "selector", "l", "", "what was found on the nodes that have these labels")
	flags.BoolVarP(&o.allNodes, "all-nodes", "A", false, "what was found on all nodes of the cluster")
	flags.StringVar(&o.agents, "agent-namespace", cmdutil.AgentNamespace, "where plumbline's agents run")
	flags.StringVar(&o.learn, "learn", "", "write the profile of the host, or of --node, into this file")
	flags.StringVar(&o.expect, "expect", "", "compare hosts with the profile in this file")
	flags.StringVar(&o.bundle, "bundle", "", "write an archive for support into this file")
	flags.BoolVar(&o.addresses, "with-addresses", false, "leave addresses and names of hosts in the bundle as they are")
	o.cluster.AddFlags(flags)
	return cmd
}

// check refuses flags that do not go together, before anything is read.
func (o *options) check(given func(flag string) bool) error {
	if err := cmdutil.CheckFormat(o.output); err != nil {
		return err
	}
	chosen := 0
	for _, flag := range []string{"node", "selector", "all-nodes"} {
		if given(flag) {
			chosen++
		}
	}
	switch {
	case chosen > 1:
		return cmdutil.Usagef("--node, -l and -A: want one of them")
	case given("node") && o.node == "", given("selector") && o.labels == "":
		return cmdutil.Usagef("--node and -l: want a node's name, or labels; -A is all nodes")
	case chosen > 0 && given("root"):
		return cmdutil.Usagef("--root is for this host: it does not go with --node, -l or -A")
	}
	return o.checkFiles(given)
}

// checkFiles refuses what does not go with --learn and --expect.
func (o *options) checkFiles(given func(flag string) bool) error {
	switch learn := given("learn"); {
	case learn && given("expect"):
		return cmdutil.Usagef("--learn and --expect: want one of them")
	case learn && o.learn == "", given("expect") && o.expect == "":
		return cmdutil.Usagef("--learn and --expect: want a file")
	case learn && (o.labels != "" || o.allNodes):
		return cmdutil.Usagef("--learn is of one host: want --node, or neither -l nor -A")
	case learn && given("output"):
		return cmdutil.Usagef("--learn writes YAML: it does not go with -o")
	}
	return o.checkBundle(given)
}

// checkBundle refuses what does not go with --bundle.
func (o *options) checkBundle(given func(flag string) bool) error {
	switch bundle := given("bundle"); {
	case bundle && o.bundle == "":
		return cmdutil.Usagef("--bundle: want a file, such as support.tar.gz")
	case bundle && (given("learn") || given("output")):
		return cmdutil.Usagef("--bundle holds all of it: it does not go with --learn and -o")
	case given("with-addresses") && !bundle:
		return cmdutil.Usagef("--with-addresses is of a bundle: want --bundle with it")
	}
	return nil
}

// exitWrong is the exit code where something is wrong.
const exitWrong = 3

// patience bounds all that is asked of the API server.
const patience = time.Minute

func (o *options) run(ctx context.Context, out io.Writer) error {
	if o.bundle != "" {
		return o.writeBundle(ctx, out)
	}
	want, err := o.wanted()
	if err != nil {
		return err
	}
	if o.node == "" && o.labels == "" && !o.allNodes {
		return o.runHost(ctx, want, out)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return o.runNodes(ctx, want, out)
}

// wrongIs the error that ends a command by which something wrong was found.
func wrongIs(n int) error {
	if n > 0 {
		return cmdutil.ExitError{Code: exitWrong}
	}
	return nil
}
