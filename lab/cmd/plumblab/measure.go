// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/lab/cluster"
	"plumbline.dev/plumbline/lab/image"
	"plumbline.dev/plumbline/lab/scenario"
	"plumbline.dev/plumbline/lab/scenario/measure"
)

// newMeasure runs plumbline bench.
func newMeasure(g *global) *cobra.Command {
	options := cluster.Options{OnHost: true}
	return &cobra.Command{
		Use:   "measure",
		Short: "Start a node on this host, and run plumbline bench on it",
		Long: `measure packs Debian's iperf3, Open MPI and PyTorch for CPUs (a gigabyte), and has plumbline
bench compare a claimed NIC with the pods' own network, for a TCP stream, an all-reduce and
a training of two ranks, and two NICs with each other. Then the image lacks the tool, the
command is interrupted, and it is killed: nothing may be left of any of them. The NICs are
virtual links of one node: what is measured is this host's kernel. Reports and pictures are
in out/bench. It needs root.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := place(cmd, onHost, &options); err != nil {
				return err
			}
			checkout, err := g.checkout()
			if err != nil {
				return err
			}
			s, err := g.start(cmd, options)
			if err != nil {
				return err
			}
			program, err := s.builder.Program("plumbline")
			if err != nil {
				return err
			}
			archive, err := s.builder.Iperf3(cmd.Context())
			if err != nil {
				return err
			}
			jobs, err := s.builder.Training(cmd.Context(), filepath.Join(checkout, trainProgram))
			if err != nil {
				return err
			}
			for _, image := range []string{archive, jobs} {
				if err := s.cluster.AddImages(cmd.Context(), image); err != nil {
					return err
				}
			}
			fmt.Fprintf(s.out, "\nplumbline bench on %s\n\n", cluster.HostNodeName)
			return measure.Run(cmd.Context(), measure.Config{
				Cluster: s.on(cluster.HostNodeName), StandIns: cluster.StandIns,
				ToolImage: image.Iperf3, JobImage: image.Training, AllReduce: image.Allreduce, Train: image.Train,
				Plumbline: scenario.Plumbline{Program: program, Kubeconfig: s.kubectl.Kubeconfig},
				Dir:       filepath.Join(checkout, "out", "bench"),
			})
		},
	}
}
