// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/deploy"
	"plumbline.dev/plumbline/lab/cluster"
	"plumbline.dev/plumbline/lab/image"
	"plumbline.dev/plumbline/lab/progress"
	"plumbline.dev/plumbline/lab/scenario/compare"
	"plumbline.dev/plumbline/lab/scenario/harness"
)

// plumblineAgent is ours, as the chart installs it.
var plumblineAgent = compare.Agent{
	Namespace: deploy.Namespace, DaemonSet: deploy.AgentServiceAccount, Process: "plumbline-agent",
}

// benchDRANET runs DRANET and plumbline by turns on one node of this host.
func (g *global) benchDRANET(cmd *cobra.Command, p *progress.Printer) (err error) {
	ctx := cmd.Context()
	beside, down := g.beside("dranet")
	defer func() {
		if downErr := down(ctx); err == nil {
			err = downErr
		}
	}()
	builder, err := beside.artifactBuilder(ctx, cmd)
	if err != nil {
		return err
	}
	archive, scan, err := builder.DRANET(ctx)
	if err != nil {
		return err
	}
	c, err := beside.open()
	if err != nil {
		return err
	}
	if err := c.Up(ctx, builder, cluster.Options{OnHost: true, NoOperator: true, UsersPace: true}); err != nil {
		return err
	}
	if err := installDRANET(ctx, c, archive, false); err != nil {
		return err
	}
	client, err := c.Client()
	if err != nil {
		return err
	}
	measured, err := compare.Measure(ctx, compare.Config{
		Cluster: harness.Cluster{Client: client, Node: cluster.HostNodeName, Shell: c.NodeShell, Image: image.Busybox},
		Agents:  []compare.Agent{plumblineAgent, compare.DRANET},
		NICs:    cluster.StandIns, Links: c.LinksOnHost, Reset: cluster.ResetStandIns(), Progress: p,
	})
	if err != nil {
		return err
	}
	printBeside(cmd.OutOrStdout(), measured[0], measured[1])
	return timed(p, "1,001 links", func() error { return compareScans(ctx, cmd.OutOrStdout(), c, scan) })
}

func installDRANET(ctx context.Context, c *cluster.Cluster, archive string, on bool) error {
	if err := c.AddImages(ctx, archive); err != nil {
		return err
	}
	host, port, err := c.NodeAPIServer()
	if err != nil {
		return err
	}
	manifest, err := compare.DRANETManifest(image.DRANET, host, port, on)
	if err != nil {
		return err
	}
	return c.Apply(ctx, manifest)
}

// printBeside prints each figure of ours, DRANET's, and how they compare.
func printBeside(w io.Writer, ours, theirs compare.Measured) {
	for _, f := range []struct {
		benchmark, unit string
		ours, theirs    float64
	}{
		{"BenchmarkPodReadyNone 1", "ms", ms(ours.Ready[0]), ms(theirs.Ready[0])},
		{"BenchmarkPodReadyOne 1", "ms-beyond-none", ms(ours.Beyond(1)), ms(theirs.Beyond(1))},
		{"BenchmarkPodReadyEight 1", "ms-beyond-none", ms(ours.Beyond(8)), ms(theirs.Beyond(8))},
		// What both have in common is in these: who is slow with pods that have no NIC
		// looks fast beyond them.
		{"BenchmarkPodCreatedToReadyOne 1", "ms", ms(ours.Ready[1]), ms(theirs.Ready[1])},
		{"BenchmarkPodCreatedToReadyEight 1", "ms", ms(ours.Ready[8]), ms(theirs.Ready[8])},
		{"BenchmarkPodGoneOne 1", "ms", ms(ours.Back[1]), ms(theirs.Back[1])},
		{"BenchmarkPodGoneEight 1", "ms", ms(ours.Back[8]), ms(theirs.Back[8])},
		{"BenchmarkAgentBesidePods 1", "MB-resident", mb(ours.Memory.Resident), mb(theirs.Memory.Resident)},
		{"BenchmarkAgentBesidePodsShare 1", "MB-proportional", mb(ours.Memory.Proportional), mb(theirs.Memory.Proportional)},
	} {
		printRatio(w, f.benchmark, f.unit, f.ours, f.theirs)
	}
}

// printRatio prints one figure for the report, after the benchmark's name and how
// often it ran. The ratio is a figure of its own, too, which may have a target.
func printRatio(w io.Writer, benchmark, unit string, ours, theirs float64) {
	ratio := ours / theirs
	fmt.Fprintf(w, "%s %.2f %s %.2f DRANET-%s %.3f x-DRANET %.3f of-DRANET\n", benchmark, ours, unit, theirs, unit, ratio, ratio)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func mb(bytes int64) float64 { return float64(bytes) / 1e6 }

// besideLooks is how often each looks at the links.
const besideLooks = 5

// compareScans has both look at a thousand links in the node's namespace, by turns.
func compareScans(ctx context.Context, w io.Writer, c *cluster.Cluster, scan string) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find plumblab: %w", err)
	}
	ours, err := c.PutOnHost(program)
	if err != nil {
		return err
	}
	theirs, err := c.PutOnHost(scan)
	if err != nil {
		return err
	}
	took, err := compare.Scans(ctx, c.NodeShell, besideLooks, strings.Join([]string{ours, scanLinksCommand}, " "), theirs)
	if err != nil {
		return err
	}
	printRatio(w, "BenchmarkScanBesideDRANET 1", "ms", ms(took[0]), ms(took[1]))
	return nil
}
