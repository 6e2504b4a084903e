// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/lab/cluster"
	"plumbline.dev/plumbline/lab/scenario/crowd"
	"plumbline.dev/plumbline/lab/scenario/cycles"
)

// newBench measures what only a cluster can show, and prints it as Go's
// benchmarks do, for the same report.
func newBench(g *global) *cobra.Command {
	return &cobra.Command{
		Use:   "bench",
		Short: "Start clusters and measure the agent: idle in the virtual machine, under pods on this host",
		Long: `bench measures the memory of the idle agent in the virtual machine and, where it
may run a node on this host (root), what 200 pods without any fault cost the agent,
and what it costs to verify 100 that run.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if why := checkHost(cmd); why != nil {
				fmt.Fprintln(cmd.ErrOrStderr(), "without the cost of pods:", why)
			} else if err := g.benchPods(cmd); err != nil {
				return err
			}
			return g.benchIdle(cmd)
		},
	}
}

func (g *global) benchIdle(cmd *cobra.Command) error {
	demo, _, err := g.demo(cmd, cluster.Options{Machine: "a3-ultragpu-8g"})
	if err != nil {
		return err
	}
	bytes, err := demo.IdleAgent(cmd.Context())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "BenchmarkAgentIdle 1 %.1f MB-resident\n", float64(bytes)/1e6)
	return err
}

// benchPods runs a cluster of its own, which goes when it is done.
func (g *global) benchPods(cmd *cobra.Command) (err error) {
	beside := *g
	beside.name += "-host"
	options := cluster.Options{OnHost: true}
	var config cycles.Config
	defer func() {
		c, openErr := beside.open()
		if openErr == nil {
			openErr = c.Down(context.WithoutCancel(cmd.Context()))
		}
		err = errors.Join(err, openErr)
	}()
	if _, err := beside.prepare(cmd, options, &config); err != nil {
		return err
	}
	config.Node.Lanes = 4
	cost, err := cycles.Quiet(cmd.Context(), config)
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "BenchmarkPods50 1 %d slice-writes\nBenchmarkPods200 1 %.1f MB-before %.1f MB-after %.2f of-before\n",
		cost.Writes, float64(cost.Before)/1e6, float64(cost.After)/1e6, float64(cost.After)/float64(cost.Before))
	return benchCrowd(cmd, config)
}

// benchCrowd has a hundred pods verified. They are looked at more often than users
// look, so that a minute is enough; the figure is of users' interval.
func benchCrowd(cmd *cobra.Command, config cycles.Config) error {
	cost, err := crowd.Measure(cmd.Context(), crowd.Config{
		Client: config.Client, Node: config.Node.Name, Shell: config.Node.Shell, Image: config.Image, Out: cmd.ErrOrStderr(),
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "BenchmarkVerifyHundredRealPods %d %.1f CPU-ms/look %.2f %%-of-a-core\n",
		cost.Looks, cost.Look*1000, cost.Share(10*time.Second))
	return err
}
