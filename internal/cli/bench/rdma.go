// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/internal/bench/plan"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
)

// newRDMA measures RDMA between two pods, by one of perftest's commands.
func newRDMA(o *options, kind string) *cobra.Command {
	rdma := plan.Options{Iterations: 1000, Bytes: 2}
	what, tool := "latency", "ib_write_lat"
	if kind == plan.RDMABandwidth {
		rdma.Iterations, rdma.Bytes = 5000, 65536
		what, tool = "bandwidth", "ib_write_bw"
	}
	var variable string
	var subnets []string
	cmd := &cobra.Command{
		Use:   kind + " --image IMAGE",
		Short: "Compare the " + what + " of RDMA writes by NICs, or by CPUs, that are aligned and that are not",
		Long: `Two pods claim NICs with an RDMA device and CPUs, and ` + tool + ` of perftest writes from
one to the other. What differs is declared, and both arms run in the same pods:

--variable nic   two NICs in each pod: one of the CPUs' NUMA node and one of another, or with
                 --against those of another expression
--variable cpus  one NIC in each pod, and CPUs of its NUMA node and of another, to which
                 taskset binds the tool by turns

The server listens before the client is begun. Packets that the arms' RDMA devices counted
must be those of the tool's writes; where the pods do not see the counters, because all
network namespaces share RDMA devices, the agents of their nodes are asked. NICs are RoCE,
and have addresses, or are given some by --addresses.

` + codes(),
		Example: `  # what does a NIC of the other NUMA node cost?
  {{program}} bench ` + kind + ` --image registry.example/bench --addresses 192.168.200.0/24,192.168.201.0/24

  # what do CPUs of the other NUMA node cost, by the same NIC?
  {{program}} bench ` + kind + ` --image registry.example/bench --variable cpus --cpus 2

  # what would be made?
  {{program}} bench ` + kind + ` --image registry.example/bench --dry-run`,
		Args: cmdutil.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := declare(cmd, &rdma, variable); err != nil {
				return err
			}
			return o.plan(cmd, rdma, subnets, func(p plan.Options) (*plan.Plan, error) { return plan.NewRDMA(kind, p) })
		},
	}
	flags := cmd.Flags()
	addArms(flags, &rdma, &variable, &subnets, plan.Misaligned)
	flags.IntVar(&rdma.Iterations, "iterations", rdma.Iterations, "how many writes a run is of; a run takes two minutes at most")
	flags.IntVar(&rdma.Bytes, "size", rdma.Bytes, "the bytes of a write")
	flags.BoolVar(&rdma.GPUMemory, "gpu-memory", false, "claim a GPU, and read from and write to its memory (a perftest that is built with CUDA)")
	o.addFlags(flags)
	return cmd
}
