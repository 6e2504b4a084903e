// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package bench is the command that measures what a choice of devices costs.
//
//	command.go  what all its commands have in common: exit codes, and which there are
//	tcp.go      flags of tcp, and its plan
//	rdma.go     those of rdma-latency and rdma-bandwidth
//	jobs.go     those of allreduce, training and gpu-latency
//	measure.go  a plan is printed or carried out, and its report written
//	report.go   reports that were kept
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/internal/bench/plan"
	"plumbline.dev/plumbline/internal/bench/report"
	"plumbline.dev/plumbline/internal/bench/run"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
)

// Exit codes beyond those of all commands.
const (
	exitUndeclared  = 3
	exitTooFew      = 4
	exitPod         = 5
	exitTool        = 6
	exitOutput      = 7
	exitLeft        = 8
	exitInterrupted = 130
)

// exit is an error that has a code of its own.
type exit struct {
	err  error
	code int
	// said is the help's sentence.
	said string
}

// exits are all of them; the first that fits counts.
var exits = []exit{
	{run.ErrLeft, exitLeft, "something was left in the cluster, and it is said what and how to take it away"},
	{context.Canceled, exitInterrupted, "it was interrupted, and nothing is left"},
	{plan.ErrUndeclared, exitUndeclared, "the arms differ in what was not declared, or not in what was"},
	{run.ErrTooFew, exitTooFew, "too few turns are left of which both runs were as planned"},
	{run.ErrPod, exitPod, "a pod never started, or did not stay"},
	{run.ErrTool, exitTool, "the image lacks the tool"},
	{run.ErrOutput, exitOutput, "the tool's output has no figure: it failed, is cut, or no measurement"},
	{report.ErrReport, exitOutput, ""},
	{report.ErrOther, exitUndeclared, ""},
}

// coded gives an error its exit code. What is wrong is printed here, on one line.
func coded(cmd *cobra.Command, err error) error {
	if errors.Is(err, plan.ErrOptions) {
		return cmdutil.UsageError{Err: err}
	}
	for _, e := range exits {
		if errors.Is(err, e.err) {
			said := cmdutil.OneLine(err)
			if e.code == exitInterrupted {
				said = "interrupted; what was made is gone"
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", cmd.Root().DisplayName(), said)
			return cmdutil.ExitError{Code: e.code}
		}
	}
	return err
}

// codes is the help's list of exit codes.
func codes() string {
	text := "Exit code: 0 there is a verdict, of which \"no difference seen\" is one; 1 something else\nwent wrong; 2 the command line is wrong"
	sorted := slices.Clone(exits)
	slices.SortStableFunc(sorted, func(a, b exit) int { return cmp.Compare(a.code, b.code) })
	for _, e := range sorted {
		if e.said != "" {
			text += fmt.Sprintf(";\n%d %s", e.code, e.said)
		}
	}
	return text + "."
}

// kinds are what can be measured.
var kinds = []struct{ name, tool, variable, what string }{
	{plan.TCP, "iperf3", string(plan.NIC), "throughput of one TCP stream between two pods, by a claimed NIC against the pods' own network or other NICs"},
	{plan.RDMALatency, "ib_write_lat", "NIC, CPUs", "median latency of RDMA writes between two pods, by a NIC near the CPUs against a far one or others, or by CPUs"},
	{plan.RDMABandwidth, "ib_write_bw", "NIC, CPUs", "bandwidth of RDMA writes between two pods, compared likewise"},
	{plan.GPULatency, "nvbandwidth", "CPUs", "latency between a GPU and the memory of near and of far CPUs"},
	{plan.AllReduce, "nccl-tests", "NIC", "bus bandwidth of an all-reduce of two pods"},
	{plan.Training, "MFU_RESULT", "NIC, CPUs", "step of a training in two pods, and its share of the GPU's peak"},
}

// NewCommand makes the command, in a group of the help text.
func NewCommand(group string) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "bench",
		GroupID: group,
		Short:   "Measure what one choice of devices costs, by turns and with an interval",
		Long: `Measure two arms that differ in one declared variable, on the user's own cluster. Pods
and claims are made for it, the arms run by turns (A B, B A, ...), verify is asked before
and after each run, and a run whose alignment or path was not as planned is thrown out and
counted. All that was made goes in the end, also when the command is killed
(docs/bench.md says how).

` + codes(),
		Example: `  # what can be measured?
  {{program}} bench list

  # is a claimed NIC faster than the pod's own network?
  {{program}} bench tcp --image registry.example/bench --addresses 192.168.200.0/24

  # what does a NIC of the other NUMA node cost?
  {{program}} bench rdma-latency --image registry.example/bench`,
		Args: cmdutil.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTCP(newOptions()), newRDMA(newOptions(), plan.RDMALatency), newRDMA(newOptions(), plan.RDMABandwidth),
		newGPULatency(newOptions()), newAllReduce(newOptions()), newTraining(newOptions()), newList(), newReport())
	return cmd
}

func newList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Say what can be measured, with which tool",
		Args:  cmdutil.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 3, ' ', 0)
			fmt.Fprintln(w, "KIND\tTOOL\tVARIABLE\tMEASURES")
			for _, k := range kinds {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", k.name, k.tool, k.variable, k.what)
			}
			return w.Flush()
		},
	}
}
