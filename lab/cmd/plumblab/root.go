// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/lab/build"
	"plumbline.dev/plumbline/lab/cache"
	"plumbline.dev/plumbline/lab/cluster"
	"plumbline.dev/plumbline/lab/progress"
)

// global holds the flags every command has.
type global struct {
	name, cache, source string
}

func newRoot() *cobra.Command {
	g := &global{}
	root := &cobra.Command{
		Use:   "plumblab",
		Short: "A real Kubernetes cluster on this machine, with the hardware you choose",
		Long: `plumblab runs real Kubernetes on one machine: etcd, API server, scheduler and
controller-manager as processes on the loopback, and a node in a virtual
machine whose NUMA nodes, PCIe roots and devices are those of a machine file.

It builds what it runs from Go modules and Debian packages, needs no root and
no registry, and writes only below its cache folder. The first run builds for
some minutes; later ones reuse that.`,
		Example: `  plumblab up --machine a3-ultragpu-8g     boot a cluster
  plumblab kubectl -- get nodes            look around
  plumblab shell                           a shell on the node
  plumblab logs kubelet -f                 follow a component
  plumblab down                            stop and forget it`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	flags := root.PersistentFlags()
	flags.StringVar(&g.name, "name", "lab", "the cluster's name; clusters of different names run side by side")
	flags.StringVar(&g.cache, "cache", defaultCache(), "folder for builds, downloads and running clusters")
	flags.StringVar(&g.source, "source", "", "plumbline's source (default: the checkout around the current folder)")
	root.AddCommand(newUp(g), newDown(g), newStatus(g), newBuild(g),
		newKubeconfig(g), newKubectl(g), newLogs(g), newShell(g), newFetch(g), newDemo(g), newBench(g), newMetadata(), newGuestTest(g), newSoak(g), newUpgrade(g), newCPUs(g), newPolicies(g), newShares(g), newMPI(g), newMission(g), newEGX(g), newGPUs(g), newRDMA(g), newMeasure(g), newBenchImage(g), newAlarms(g), newProof(g), newObserve(g), newInstall(g), newHostNode(), newCheckHost(), newScanLinks())
	return root
}

// defaultCache follows the XDG base directory specification.
func defaultCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ".cache"
	}
	return filepath.Join(dir, "plumbline")
}

// open returns the cluster the flags name. It starts nothing.
func (g *global) open() (*cluster.Cluster, error) {
	c, err := cache.Open(g.cache)
	if err != nil {
		return nil, err
	}
	return cluster.Open(c, g.name)
}

// artifactBuilder returns what builds the cluster's programs.
func (g *global) artifactBuilder(ctx context.Context, cmd *cobra.Command) (*cluster.ArtifactBuilder, error) {
	c, err := cache.Open(g.cache)
	if err != nil {
		return nil, err
	}
	source, err := g.checkout()
	if err != nil {
		return nil, err
	}
	p := progress.New(cmd.ErrOrStderr(), isTerminal(os.Stderr), time.Now)
	return cluster.NewArtifactBuilder(ctx, c, p, source)
}

// checkout returns the root folder of plumbline's source.
func (g *global) checkout() (string, error) {
	if g.source != "" {
		return filepath.Abs(g.source)
	}
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	return build.Source(here)
}

// isTerminal says whether f shows to a person: only then may lines be
// rewritten.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}
