// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/lab/build"
	"plumbline.dev/plumbline/lab/cluster"
	"plumbline.dev/plumbline/lab/image"
	"plumbline.dev/plumbline/lab/scenario"
)

// azure is the machine that the training example's templates are written for;
// they ask for the same four GPUs, so each gets a node.
var azure = cluster.Simulated{Machine: "azure-nd96isr-h100-v5", Count: 2}

func newDemo(g *global) *cobra.Command {
	options := cluster.Options{Machine: "a3-ultragpu-8g", Simulate: []cluster.Simulated{azure}}
	var onlyTPU bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Start the cluster, run the mission's manifests, and judge where everything is",
		Long: `demo does what up does, with two simulated Azure nodes beside a virtual A3 Ultra,
applies the manifests in examples/, and reads from inside each pod and from the
node where its GPU, NIC, CPUs and memory are. It fails when a fact contradicts a
claim. The TPU example follows on a second virtual machine, which goes when it is
done. The first goes on running; demo can be run again at once.`,
		Example: "  plumblab demo\n  plumblab down",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if onlyTPU {
				ok, err := g.tpu(cmd.Context(), cmd, options.Versions)
				if err == nil && !ok {
					err = errors.New("demo: FAIL")
				}
				return err
			}
			demo, _, err := g.demo(cmd, options)
			if err != nil {
				return err
			}
			demo.Further = func(ctx context.Context) (bool, error) { return g.tpu(ctx, cmd, options.Versions) }
			return demo.Run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&onlyTPU, "tpu", false, "run the TPU example alone, on its own virtual machine")
	gpuFlag(cmd, &options, cluster.GPUsOfNVIDIA)
	versionFlags(cmd, &options.Versions)
	return cmd
}

// tpuNode is small: one pod, and two NICs to give away.
var tpuNode = cluster.Options{Machine: "gcp-ct6e-standard-4t", CPUs: 2, MemoryMiB: 4096, GPUs: cluster.GPUsSimulated}

// tpu runs the TPU example on a cluster of its own, which goes when it is done.
func (g *global) tpu(ctx context.Context, cmd *cobra.Command, v build.Versions) (ok bool, err error) {
	beside, options := *g, tpuNode
	beside.name += "-tpu"
	options.Versions = v
	demo, c, err := beside.demo(cmd, options)
	if c != nil {
		defer func() { err = errors.Join(err, c.Down(context.WithoutCancel(ctx))) }()
	}
	if err != nil {
		return false, err
	}
	return demo.TPU(ctx, c.NodeShell)
}

// demo brings the cluster up and returns it and what runs scenarios on it.
func (g *global) demo(cmd *cobra.Command, options cluster.Options) (scenario.Demo, *cluster.Cluster, error) {
	source, err := g.checkout()
	if err != nil {
		return scenario.Demo{}, nil, err
	}
	builder, err := g.artifactBuilder(cmd.Context(), cmd)
	if err != nil {
		return scenario.Demo{}, nil, err
	}
	c, err := g.open()
	if err != nil {
		return scenario.Demo{}, nil, err
	}
	if err := c.Up(cmd.Context(), builder, options); err != nil {
		return scenario.Demo{}, c, err
	}
	argv, kubeconfig, err := c.KubectlCommand()
	if err != nil {
		return scenario.Demo{}, c, err
	}
	plumbline, err := builder.Program("plumbline")
	return scenario.Demo{
		Kubectl: scenario.Kubectl{Command: argv, Kubeconfig: kubeconfig},
		Node:    options.Machine, Examples: filepath.Join(source, "examples"),
		Plumbline: plumbline, Pictures: filepath.Join(source, "out"), Image: image.Busybox, Out: cmd.OutOrStdout(),
		NVIDIA: options.GPUs == cluster.GPUsOfNVIDIA,
	}, c, err
}
