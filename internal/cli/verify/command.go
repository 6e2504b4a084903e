// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/verify"
	"plumbline.dev/plumbline/internal/verify/evaluate"
)

// Exit codes beyond those of all commands.
const (
	exitMisaligned = 3
	exitUnknown    = 4
)

// options are the flags.
type options struct {
	cluster   cmdutil.ClusterFlags
	all       bool
	node      string
	output    string
	agents    string
	host      bool
	sample    time.Duration
	proc, sys string
}

// NewCommand is the command; group is its place in the help.
func NewCommand(group string) *cobra.Command {
	o := options{cluster: cmdutil.NewNamespacedFlags()}
	cmd := &cobra.Command{
		Use:     "verify [pod/NAME...]",
		Short:   "Prove from the kernel that running pods are as they claim, and how near their devices are",
		GroupID: group,
		Long: `Answer two questions of running pods, by what the kernel says of them and not by
what any driver published. Are they as their claims say: which NICs and RDMA devices
are in the pod, which GPU device files, which CPUs and memory nodes its containers
are allowed and where their threads ran, and whether the claims' constraints hold
where all that is on the machine. And are they aligned: how near each GPU, NIC and
container's CPUs are to each other, in the words of nvidia-smi topo -m, and how near
the machine could have given them. A claim that asks for no nearness may be kept to
the letter by a pod that is not aligned.

The node's agent looks, and this command runs a program in its pod (exec) to see what
it found; the agent may be one that serves no device and only observes
(deploy/observe.yaml). With --host this host itself is read, which takes root.

Exit code: 0 every pod is as claimed; 1 something went wrong; 2 the command line is
wrong; 3 a pod is not as claimed; 4 of a pod it is not known, and the others are.`,
		Example: `  # one pod, with everything that was looked at
  {{program}} verify pod/train-0

  # all pods with claims, everywhere
  {{program}} verify -A

  # a node, for a program
  {{program}} verify --node gpu-node-1 -o json

  # on the node itself, without an agent
  sudo {{program}} verify --host --node gpu-node-1`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&o.all, "all-namespaces", "A", false, "pods of all namespaces")
	flags.StringVar(&o.node, "node", "", "pods of this node alone; of all namespaces, unless -n names one")
	flags.StringVarP(&o.output, "output", "o", "text", "output format: text, json or yaml")
	flags.StringVar(&o.agents, "agent-namespace", cmdutil.AgentNamespace, "where plumbline's agents run")
	flags.BoolVar(&o.host, "host", false, "read this host instead of asking agents; --node says which node it is, if not its host name")
	flags.DurationVar(&o.sample, "sample", time.Second, "with --host: how long threads are watched")
	flags.StringVar(&o.proc, "procfs", "/proc", "with --host: where its /proc is")
	flags.StringVar(&o.sys, "sysfs", ownSys, "with --host: where its /sys is")
	o.cluster.AddFlags(flags)
	return cmd
}

func (o *options) run(ctx context.Context, args []string, out io.Writer) error {
	if err := cmdutil.CheckFormat(o.output); err != nil {
		return err
	}
	if o.all && len(args) > 0 {
		return cmdutil.Usagef("--all-namespaces and pods by name: want one of them")
	}
	names, err := podNames(args)
	if err != nil {
		return err
	}
	client, err := o.cluster.Client()
	if err != nil {
		return err
	}
	source, err := o.source(client)
	if err != nil {
		return err
	}
	which := selection{names: names, node: o.node}
	if which.namespace, err = o.namespace(names); err != nil {
		return err
	}
	report, err := look(ctx, client, source, which)
	if err != nil {
		return err
	}
	if err := o.write(out, report, which); err != nil {
		return err
	}
	return exitOf(report)
}

// namespace is empty for all: who asks for a node asks for what is on it.
func (o *options) namespace(names []string) (string, error) {
	if o.all || o.node != "" && len(names) == 0 && *o.cluster.Namespace == "" {
		return "", nil
	}
	return o.cluster.CurrentNamespace()
}

func (o *options) write(out io.Writer, report *verify.Report, which selection) error {
	switch o.output {
	case "json":
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(report)
	case "yaml":
		text, err := yaml.Marshal(report)
		if err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
		_, err = out.Write(text)
		return err
	}
	if len(report.Pods) == 0 {
		_, err := fmt.Fprintln(out, which.none())
		return err
	}
	return writeText(out, report)
}

// exitOf is an error where not all is well; what is not was printed.
func exitOf(report *verify.Report) error {
	code := 0
	for _, p := range report.Pods {
		switch p.Verdict {
		case string(evaluate.WordMisaligned):
			return cmdutil.ExitError{Code: exitMisaligned}
		case string(evaluate.WordAligned), string(evaluate.WordAsClaimed):
		default:
			code = exitUnknown
		}
	}
	if code != 0 {
		return cmdutil.ExitError{Code: code}
	}
	return nil
}
