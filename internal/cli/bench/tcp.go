// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/internal/bench/plan"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
)

// newTCP measures throughput between two pods.
func newTCP(o *options) *cobra.Command {
	tcp := plan.Options{}
	var subnets []string
	cmd := &cobra.Command{
		Use:   "tcp --image IMAGE",
		Short: "Compare the TCP throughput of claimed NICs with the pods' own network, or with other NICs",
		Long: `Two pods claim a NIC each, and iperf3 sends one TCP stream from one to the other: by the
claimed NICs, and by turns by what --against says. Both arms run in the same pods, so that
they differ in the NIC alone. Counters of the pods' interfaces must show that the bytes took
the way that they should.

Claimed NICs keep the addresses that they have on the host; --addresses gives them others.

` + codes(),
		Example: `  # a claimed NIC against the pods' own network, between two nodes
  {{program}} bench tcp --image registry.example/bench --node gpu-node-1,gpu-node-2

  # two NICs against each other, and a picture of it
  {{program}} bench tcp --image registry.example/bench --svg nics.svg \\
      --nic 'device.attributes["dra.net"].ifName == "eth1"' \\
      --against 'device.attributes["dra.net"].ifName == "eth2"'

  # what would be made?
  {{program}} bench tcp --image registry.example/bench --dry-run`,
		Args: cmdutil.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.plan(cmd, tcp, subnets, plan.NewTCP)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&tcp.NIC, "nic", "", "a CEL expression that the claimed NICs fulfil; any NIC without it")
	flags.StringVar(&tcp.Against, "against", plan.PodNetwork, "what they are compared with: "+plan.PodNetwork+", the pods' own network, or an expression for other NICs")
	flags.StringSliceVar(&subnets, "addresses", nil, "subnets of the claimed NICs' addresses, one for each arm's; those of the host without it")
	flags.IntVar(&tcp.CPUs, "cpus", 0, "so many exclusive CPUs for each pod, in both arms the same")
	flags.IntVar(&o.seconds, "seconds", 5, "how long each run is")
	o.addFlags(flags)
	return cmd
}
