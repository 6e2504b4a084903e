// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/lab/cluster"
	"plumbline.dev/plumbline/lab/progress"
	"plumbline.dev/plumbline/lab/scenario/density"
	"plumbline.dev/plumbline/lab/scenario/soak"
)

// newBench measures what only a cluster can show, and prints it as Go's
// benchmarks do, for the same report.
func newBench(g *global) *cobra.Command {
	var only string
	parts := map[string]func(*cobra.Command, *progress.Printer) error{
		"dranet": g.benchDRANET, "pods": g.benchPods, "idle": g.benchIdle,
	}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Start clusters and measure the agent: idle in the virtual machine, under pods on this host",
		Long: `bench measures, where it may run a node on this host (root), how soon pods are
Ready with plumbline and with DRANET by turns, what 200 pods without any fault cost
the agent, and what it costs to verify 100 that run; and the memory of the idle
agent in the virtual machine. Every cluster is its own, and goes when it is done.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p := progress.New(cmd.ErrOrStderr(), isTerminal(os.Stderr), time.Now)
			if only != "" {
				part, ok := parts[only]
				if !ok {
					return fmt.Errorf("--only %q: want dranet, pods or idle", only)
				}
				return part(cmd, p)
			}
			if why := checkHost(cmd); why != nil {
				fmt.Fprintln(cmd.ErrOrStderr(), "without the cost of pods:", why)
				return g.benchIdle(cmd, p)
			}
			for _, part := range []string{"dranet", "pods", "idle"} {
				if err := parts[part](cmd, p); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&only, "only", "", "only one `PART`: dranet, pods or idle")
	return cmd
}

// beside is a cluster for one part, beside those of the same cache, and what ends
// it.
func (g *global) beside(part string) (other *global, down func(context.Context) error) {
	other = &global{name: g.name + "-" + part, cache: g.cache, source: g.source}
	return other, func(ctx context.Context) error {
		c, err := other.open()
		if err != nil {
			return err
		}
		return c.Down(context.WithoutCancel(ctx))
	}
}

// timed shows a step of a measurement.
func timed(p *progress.Printer, title string, work func() error) error {
	task := p.Start(title)
	if err := work(); err != nil {
		task.Fail()
		return err
	}
	task.Done("measured")
	return nil
}

func (g *global) benchIdle(cmd *cobra.Command, p *progress.Printer) (err error) {
	beside, down := g.beside("idle")
	defer func() { err = errors.Join(err, down(cmd.Context())) }()
	demo, _, err := beside.demo(cmd, cluster.Options{Machine: "a3-ultragpu-8g"})
	if err != nil {
		return err
	}
	return timed(p, "memory of the idle agent", func() error {
		bytes, err := demo.IdleAgent(cmd.Context())
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "BenchmarkAgentIdle 1 %.1f MB-resident\n", float64(bytes)/1e6)
		return err
	})
}

// benchPods runs pods one after the other, and many at a time.
func (g *global) benchPods(cmd *cobra.Command, p *progress.Printer) (err error) {
	beside, down := g.beside("host")
	defer func() { err = errors.Join(err, down(cmd.Context())) }()
	var config soak.Config
	if _, err := beside.prepare(cmd, cluster.Options{OnHost: true}, &config); err != nil {
		return err
	}
	config.Node.Lanes = 4
	err = timed(p, "pods that come and go", func() error {
		cost, err := soak.MeasureAgentCost(cmd.Context(), config)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "BenchmarkPods50 1 %d slice-writes\nBenchmarkPods200 1 %.1f MB-before %.1f MB-after %.2f of-before\n",
			cost.Writes, float64(cost.Before)/1e6, float64(cost.After)/1e6, float64(cost.After)/float64(cost.Before))
		return err
	})
	if err != nil {
		return err
	}
	return timed(p, "verification of 100 pods", func() error { return benchDensity(cmd, config) })
}

// benchDensity has a hundred pods verified. They are looked at more often than users
// look, so that a minute is enough; the figure is of users' interval.
func benchDensity(cmd *cobra.Command, config soak.Config) error {
	config.Out = cmd.ErrOrStderr()
	cost, err := density.Measure(cmd.Context(), config.Cluster())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "BenchmarkVerifyHundredRealPods %d %.1f CPU-ms/look %.2f %%-of-a-core\n",
		cost.Verifications, cost.CPUSeconds*1000, cost.Share(10*time.Second))
	return err
}
