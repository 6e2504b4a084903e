// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"plumbline.dev/plumbline/lab/cluster"
	"plumbline.dev/plumbline/lab/image"
	"plumbline.dev/plumbline/lab/scenario"
	"plumbline.dev/plumbline/lab/scenario/harness"
)

// started is a cluster that is up, and what reaches it.
type started struct {
	builder *cluster.ArtifactBuilder
	cluster *cluster.Cluster
	client  kubernetes.Interface
	kubectl scenario.Kubectl
	out     io.Writer
}

// start brings the cluster up.
func (g *global) start(cmd *cobra.Command, options cluster.Options) (s started, err error) {
	s.out = cmd.OutOrStdout()
	if s.builder, err = g.artifactBuilder(cmd.Context(), cmd); err != nil {
		return s, err
	}
	if s.cluster, err = g.open(); err != nil {
		return s, err
	}
	if err = s.cluster.Up(cmd.Context(), s.builder, options); err != nil {
		return s, err
	}
	if s.client, err = s.cluster.Client(); err != nil {
		return s, err
	}
	s.kubectl.Command, s.kubectl.Kubeconfig, err = s.cluster.KubectlCommand()
	return s, err
}

// on is what a scenario is to know to run on a node.
func (s started) on(node string) harness.Cluster {
	return harness.Cluster{Client: s.client, Node: node, Shell: s.cluster.NodeShell, Image: image.Busybox, Out: s.out}
}
