// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"

	"plumbline.dev/plumbline/internal/atomicfile"
	"plumbline.dev/plumbline/internal/bench/plan"
	"plumbline.dev/plumbline/internal/bench/report"
	"plumbline.dev/plumbline/internal/bench/run"
	"plumbline.dev/plumbline/internal/bench/stats"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/printable"
	"plumbline.dev/plumbline/internal/verify"
)

// options are the flags that all kinds have.
type options struct {
	cluster  cmdutil.ClusterFlags
	image    string
	nodes    []string
	pairs    int
	repeats  int
	seconds  int
	patience time.Duration
	dryRun   bool
	output   string
	picture  string
	agents   string
	// runner is replaced by tests.
	runner func(progress func(string)) (*run.Runner, error)
}

func newOptions() *options {
	o := &options{cluster: cmdutil.NewNamespacedFlags(), seconds: 5}
	o.runner = o.newRunner
	return o
}

func (o *options) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.image, "image", "", "the image that the pods run, which has the tool (docs/bench.md has a recipe)")
	flags.StringSliceVar(&o.nodes, "node", nil, "where the pods run: one node, or those of server and client; the scheduler's choice without it")
	flags.IntVar(&o.pairs, "pairs", 8, fmt.Sprintf("how many turns are measured, each with a run of both arms; %d at least", stats.FewestPairs))
	flags.IntVar(&o.repeats, "repeats", 1, "how often the tool runs for each value of an arm, which is their median")
	flags.DurationVar(&o.patience, "patience", 2*time.Minute, "how long pods may take to start, and all to go")
	flags.BoolVar(&o.dryRun, "dry-run", false, "print the manifests, and make nothing")
	flags.StringVarP(&o.output, "output", "o", "text", "output format: text, json or yaml; json is what \"bench report\" reads")
	flags.StringVar(&o.picture, "svg", "", "write a picture of the turns to this file too")
	flags.StringVar(&o.agents, "agent-namespace", cmdutil.AgentNamespace, "where plumbline's agents run")
	o.cluster.AddFlags(flags)
}

func (o *options) check() error {
	switch {
	case o.pairs < stats.FewestPairs || o.pairs > 1000:
		return cmdutil.Usagef("--pairs %d: want %d to 1000: of fewer there is no interval", o.pairs, stats.FewestPairs)
	case o.repeats < 1 || o.repeats > 1000:
		return cmdutil.Usagef("--repeats %d: want 1 to 1000", o.repeats)
	case o.seconds < 1 || o.seconds > 3600:
		return cmdutil.Usagef("--seconds %d: want 1 to 3600", o.seconds)
	case o.patience <= 0:
		return cmdutil.Usagef("--patience %s: want more than 0s", o.patience)
	}
	return cmdutil.CheckFormat(o.output)
}

// plan makes the plan of a kind of what its flags and those of all kinds say, and measures.
func (o *options) plan(cmd *cobra.Command, p plan.Options, subnets []string, newPlan func(plan.Options) (*plan.Plan, error)) error {
	for _, text := range subnets {
		subnet, err := netip.ParsePrefix(text)
		if err != nil {
			return cmdutil.Usagef("--addresses %q: want a subnet, such as 192.168.200.0/24", text)
		}
		p.Addresses = append(p.Addresses, subnet)
	}
	var err error
	if p.Namespace, err = o.cluster.CurrentNamespace(); err != nil {
		return err
	}
	p.Run, p.Image, p.Nodes, p.Seconds = "plumbline-bench-"+utilrand.String(8), o.image, o.nodes, o.seconds
	made, err := newPlan(p)
	if err == nil {
		err = o.measure(cmd, made)
	}
	return coded(cmd, err)
}

// measure prints a plan, or carries it out.
func (o *options) measure(cmd *cobra.Command, p *plan.Plan) error {
	if err := o.check(); err != nil {
		return err
	}
	if o.dryRun {
		return printPlan(cmd, p)
	}
	runner, err := o.runner(func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), printable.Text(line)) })
	if err != nil {
		return err
	}
	r, err := runner.Run(cmd.Context(), p, run.Settings{Pairs: o.pairs, Repeats: o.repeats})
	if r != nil {
		err = errors.Join(o.write(cmd, r), err)
	}
	return err
}

// printPlan prints manifests as kubectl takes them. The owner that the other objects are to
// have has no id before it is made.
func printPlan(cmd *cobra.Command, p *plan.Plan) error {
	out := cmd.OutOrStdout()
	for _, object := range p.Objects() {
		fmt.Fprintln(out, "---")
		if err := cmdutil.Encode(out, "yaml", object); err != nil {
			return err
		}
	}
	return nil
}

// write writes the report, and the picture where one is wanted.
func (o *options) write(cmd *cobra.Command, r *report.Report) error {
	out := cmd.OutOrStdout()
	var err error
	if o.output == "text" {
		err = r.WriteText(out)
	} else {
		err = cmdutil.Encode(out, o.output, r)
	}
	if err != nil || o.picture == "" {
		return err
	}
	return writePicture(o.picture, r)
}

// newRunner reaches the cluster that the flags name.
func (o *options) newRunner(progress func(string)) (*run.Runner, error) {
	client, err := o.cluster.Client()
	if err != nil {
		return nil, err
	}
	execute, err := cmdutil.ExecuteIn(o.cluster, client, plan.Container)
	if err != nil {
		return nil, err
	}
	agents, err := cmdutil.AgentsOf(o.cluster, client, o.agents)
	if err != nil {
		return nil, err
	}
	return &run.Runner{
		Client: client, Execute: run.Execute(execute), Verify: verifier(agents), HostPackets: hostPackets(agents), Progress: progress, Now: time.Now,
		Seed: rand.Uint64(), Poll: time.Second, Patience: o.patience,
	}, nil
}

// verifier asks the agent of a pod's node.
func verifier(agents cmdutil.Agents) run.Verify {
	return func(ctx context.Context, pod *corev1.Pod) (report.Verified, error) {
		out, err := agents.Ask(ctx, pod.Spec.NodeName, "plumbline-agent", "verify", "--namespace="+pod.Namespace, "--pod="+pod.Name)
		if err != nil {
			return report.Verified{}, err
		}
		return verified(out, pod)
	}
}

// hostPackets asks the agent of a node.
func hostPackets(agents cmdutil.Agents) run.HostPackets {
	return func(ctx context.Context, node string, devices []string) ([]byte, error) {
		return agents.Ask(ctx, node, append([]string{"plumbline-agent", "rdma-counters"}, devices...)...)
	}
}

// verified reads an agent's answer. A pod that it does not know yet is unknown.
func verified(answer []byte, pod *corev1.Pod) (report.Verified, error) {
	var found verify.Report
	if err := json.Unmarshal(answer, &found); err != nil {
		return report.Verified{}, fmt.Errorf("read the answer of the agent on node %s: %w", pod.Spec.NodeName, err)
	}
	for _, p := range found.Pods {
		if p.UID == string(pod.UID) {
			v := report.Verified{AsClaimed: p.AsClaimed.Status, Aligned: p.Aligned.Status}
			if p.AsClaimed.Status != "True" {
				v.Message = p.AsClaimed.Reason + ": " + p.AsClaimed.Message
			}
			return v, nil
		}
	}
	return report.Verified{AsClaimed: "Unknown", Aligned: "Unknown", Message: "the node's agent does not know the pod yet"}, nil
}

func writePicture(file string, r *report.Report) error {
	var b bytes.Buffer
	if err := r.WriteSVG(&b); err != nil {
		return err
	}
	if err := atomicfile.Write(file, 0o644, &b); err != nil {
		return fmt.Errorf("write the picture: %w", err)
	}
	return nil
}
