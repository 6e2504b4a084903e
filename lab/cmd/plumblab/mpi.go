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
	"plumbline.dev/plumbline/lab/scenario/mpi"
)

// newMPI runs an MPIJob.
func newMPI(g *global) *cobra.Command {
	options := cluster.Options{OnHost: true, DNS: true}
	return &cobra.Command{
		Use:   "mpi",
		Short: "Start a node on this host, and run MPIJobs whose workers claim a NIC each",
		Long: `mpi builds Kubeflow's MPI operator and CoreDNS, packs Debian's Open MPI and PyTorch for CPUs
(a gigabyte), and installs the operator as its users do. The MPIJob of
examples/mpi-operator-gpudirect runs twice, with other NICs the second time: an allreduce
between two workers must be right. Then the two of examples/distributed-training-numa train,
and must end with MFU_RESULT. The counters of the NICs that workers claimed must show that
it all went over them, and the pods' own interfaces must not. Afterwards operator and jobs are gone, and the node is as before. The NICs are
virtual links of one node, so no figure of speed is printed. It needs root.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := place(cmd, onHost, &options); err != nil {
				return err
			}
			s, err := g.start(cmd, options)
			if err != nil {
				return err
			}
			config, err := g.mpiConfig(cmd, s)
			if err != nil {
				return err
			}
			fmt.Fprintf(s.out, "\nMPIJobs on %s\n\n", cluster.HostNodeName)
			return mpi.Run(cmd.Context(), config)
		},
	}
}

// trainProgram is the example's training, in a checkout.
const trainProgram = "examples/distributed-training-numa/benchmark/train.py"

// mpiConfig builds what MPI jobs run from, and gives the node their images.
func (g *global) mpiConfig(cmd *cobra.Command, s started) (config mpi.Config, err error) {
	checkout, err := g.checkout()
	if err != nil {
		return config, err
	}
	program, err := s.builder.Program("plumbline")
	if err != nil {
		return config, err
	}
	parts, err := s.builder.MPI(cmd.Context())
	if err != nil {
		return config, err
	}
	for _, archive := range parts.Images {
		if err := s.cluster.AddImages(cmd.Context(), archive); err != nil {
			return config, err
		}
	}
	training, err := s.builder.Training(cmd.Context(), filepath.Join(checkout, trainProgram))
	if err != nil {
		return config, err
	}
	if err := s.cluster.AddImages(cmd.Context(), training); err != nil {
		return config, err
	}
	host, port, err := s.cluster.NodeAPIServer()
	return mpi.Config{
		Cluster: s.on(cluster.HostNodeName), Kubectl: s.kubectl,
		Plumbline: scenario.Plumbline{Program: program, Kubeconfig: s.kubectl.Kubeconfig},
		Example:   filepath.Join(checkout, "examples", "mpi-operator-gpudirect", "host"),
		Training:  filepath.Join(checkout, "examples", "distributed-training-numa", "host"),
		Operator:  parts.Manifests, OperatorProgram: image.MPIOperatorProgram,
		APIHost: host, APIPort: port,
	}, err
}
