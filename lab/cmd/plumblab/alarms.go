// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math/rand/v2"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/lab/cluster"
	"plumbline.dev/plumbline/lab/scenario/falsepositive"
	"plumbline.dev/plumbline/lab/scenario/soak"
)

// newAlarms has short pods live while the agent verifies.
func newAlarms(g *global) *cobra.Command {
	options := cluster.Options{}
	var config soak.Config
	var where string
	cmd := &cobra.Command{
		Use:   "alarms",
		Short: "Start the cluster, have short pods live while the agent verifies, and count false alarms",
		Long: `alarms has pods live for a second or two, of every kind: some end themselves, crash,
have init containers or a second one, are entered by exec, force-deleted or deleted
while they start. Meanwhile the agent compares them with what the kernel says, and
is asked for its verdict several times a second. None is ever misaligned: every
event, condition, count or answer that says so is a false alarm.`,
		Example: "  plumblab alarms --node host\n  plumblab alarms --node host --cycles 1000 --seed 7",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("seed") {
				config.Seed = rand.Uint64N(1 << 32)
			}
			if err := place(cmd, where, &options); err != nil {
				return err
			}
			if _, err := g.prepare(cmd, options, &config); err != nil {
				return err
			}
			fmt.Fprintf(config.Out, "\n%d short pods on %s while its agent verifies, seed %d\n\n", config.Cycles, config.Node.Name, config.Seed)
			return falsepositive.Run(cmd.Context(), falsepositive.Config{
				Cluster: config.Cluster(), Pods: config.Cycles, Lanes: alarmLanes, Seed: config.Seed,
			})
		},
	}
	nodeFlags(cmd, &options, &where)
	cmd.Flags().IntVar(&config.Cycles, "cycles", 40, "how many pods live")
	cmd.Flags().Uint64Var(&config.Seed, "seed", 0, "the plan to follow (default: a new one, printed)")
	return cmd
}

// alarmLanes is how many pods live at a time: every node of the lab has as many
// NICs to give.
const alarmLanes = 4
