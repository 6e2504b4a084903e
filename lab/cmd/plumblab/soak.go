// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/lab/cluster"
	"plumbline.dev/plumbline/lab/hostnode"
	"plumbline.dev/plumbline/lab/image"
	"plumbline.dev/plumbline/lab/scenario/soak"
)

func newSoak(g *global) *cobra.Command {
	options := cluster.Options{}
	var config soak.Config
	var faults, where string
	nodes := 1
	cmd := &cobra.Command{
		Use:   "soak",
		Short: "Start the cluster, put pods through faults, and count what is lost",
		Long: `soak gives NICs to pods again and again, several at a time, and lets a fault happen
to each: the agent is killed, containerd or the kubelet restarted, the API server
away, the NIC removed or renamed, the pod force-deleted, the sandbox recreated while
the agent is dead. The kernel of the node is asked, several times a second, whether a
container runs without its pod's NIC, which none may, and after every pod whether the node is as it was before.

With --node host, as root, the node runs on this host: twenty times as fast, with
virtual links for NICs, and without the faults that only a PCI function survives.
A node waits most of the time, for its kubelet to come back or to try again: with
--nodes several run beside each other, each with a control plane and a share of the
pods of its own.

The seed names a run: the same one plans the same cycles, in the same order. What
meets what on the node is another matter each time.`,
		Example: "  plumblab soak --cycles 40\n  plumblab soak --node host --nodes 4 --cycles 10000 --seed 7",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("seed") {
				config.Seed = rand.Uint64N(1 << 32)
			}
			all := slices.Concat(soak.Everywhere, soak.PCI)
			if where == onHost {
				all = soak.Everywhere
			}
			var err error
			if config.Faults, err = chooseFaults(all, faults); err != nil {
				return err
			}
			if err := place(cmd, where, &options); err != nil {
				return err
			}
			if nodes < 1 || nodes > config.Cycles || nodes > 1 && where != onHost {
				return fmt.Errorf("--nodes %d: want 1 to as many as --cycles, and more than one with --node host only", nodes)
			}
			return g.soak(cmd, options, config, nodes)
		},
	}
	flags := cmd.Flags()
	nodeFlags(cmd, &options, &where)
	flags.IntVar(&config.Cycles, "cycles", 40, "how many pods to put through a fault")
	flags.IntVar(&nodes, "nodes", 1, "how many nodes share the pods, each in a cluster of its own (with --node host)")
	flags.Uint64Var(&config.Seed, "seed", 0, "the plan to follow (default: a new one, printed)")
	flags.StringVar(&faults, "faults", "", "only faults whose name begins with one of these `WORDS`, separated by commas")
	return cmd
}

// chooseFaults returns those of all whose names begin with one of the words.
func chooseFaults(all []soak.Fault, words string) ([]soak.Fault, error) {
	if words == "" {
		return all, nil
	}
	var chosen []soak.Fault
	for _, f := range all {
		for word := range strings.SplitSeq(words, ",") {
			if strings.HasPrefix(string(f), word) {
				chosen = append(chosen, f)
			}
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("--faults %q: none begins so: want some of %q", words, all)
	}
	return chosen, nil
}

// soak shares the cycles between nodes, of which the first is the cluster's own; the
// others go when they are done. The first one's progress is shown, and in the end
// what became of each.
func (g *global) soak(cmd *cobra.Command, options cluster.Options, config soak.Config, nodes int) (err error) {
	runs, later := make([]soak.Config, nodes), make([]bytes.Buffer, nodes)
	for i := range runs {
		runs[i] = config
		runs[i].Cycles, runs[i].Seed = (config.Cycles+i)/nodes, config.Seed+uint64(i)
		on := g
		if i > 0 {
			beside, down := g.beside(strconv.Itoa(i + 1))
			defer func() { err = errors.Join(err, down(cmd.Context())) }()
			on = beside
		}
		if _, err := on.prepare(cmd, options, &runs[i]); err != nil {
			return err
		}
		if i > 0 {
			runs[i].Out = &later[i]
		}
	}
	for _, r := range runs {
		fmt.Fprintf(r.Out, "\n%d pods with a NIC on %s, a fault each, seed %d\n\n", r.Cycles, r.Node.Name, r.Seed)
	}
	var all errgroup.Group
	for _, run := range runs {
		all.Go(func() error { return soak.Run(cmd.Context(), run) })
	}
	err = all.Wait()
	for i := range later {
		_, _ = later[i].WriteTo(cmd.OutOrStdout())
	}
	return err
}

// newUpgrade replaces the agent while pods come and go.
func newUpgrade(g *global) *cobra.Command {
	options := cluster.Options{}
	var config soak.Config
	var where string
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "Start the cluster, replace the agent while pods come and go, and count the failed",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := place(cmd, where, &options); err != nil {
				return err
			}
			c, err := g.prepare(cmd, options, &config)
			if err != nil {
				return err
			}
			fmt.Fprintf(config.Out, "\nPods with a NIC on %s while its agent is replaced\n\n", config.Node.Name)
			return soak.Upgrade(cmd.Context(), config, c.RollAgent)
		},
	}
	nodeFlags(cmd, &options, &where)
	return cmd
}

// nodeFlags choose the node that faults happen to.
func nodeFlags(cmd *cobra.Command, options *cluster.Options, where *string) {
	cmd.Flags().StringVar(where, "node", inVM, whereUsage)
	versionFlags(cmd, &options.Versions)
	hardwareFlags(cmd, options)
}

// hardwareFlags choose what a virtual node has; their defaults are the smallest
// machine with two NUMA nodes.
func hardwareFlags(cmd *cobra.Command, options *cluster.Options) {
	flags := cmd.Flags()
	flags.StringVar(&options.Machine, "machine", "egx-t4-cx5", "the node's hardware: a shipped machine's `NAME|FILE` of a machine file")
	flags.IntVar(&options.CPUs, "cpus", 4, "CPUs the node gets")
	flags.IntVar(&options.MemoryMiB, "memory", 6144, "memory in MiB the node may use")
}

// prepare brings the cluster up and completes what a run needs of it.
func (g *global) prepare(cmd *cobra.Command, options cluster.Options, config *soak.Config) (*cluster.Cluster, error) {
	options.NoOperator = true // these pods all find a place
	var err error
	if config.Node, err = nodeOf(options); err != nil {
		return nil, err
	}
	s, err := g.start(cmd, options)
	if err != nil {
		return nil, err
	}
	c := s.cluster
	config.Client, config.Node.Shell = s.client, c.NodeShell
	config.PauseAPIServer, config.Image, config.Out = c.PauseAPIServer, image.Busybox, cmd.OutOrStdout()
	return c, nil
}

// nodeOf is what a run is to know of the node that options start. Its shell
// comes with the cluster.
func nodeOf(options cluster.Options) (soak.Node, error) {
	if options.OnHost {
		// A pod's interfaces are called eth0 and, from a claim, net1 or what a
		// fault calls it.
		return soak.Node{
			Name: cluster.HostNodeName, Cgroup: hostnode.GroupsFolder(), StandIns: "[nm][ei]*", Lanes: len(cluster.StandIns),
		}, nil
	}
	facts, err := machine.OpenFacts(options.Machine)
	if err != nil {
		return soak.Node{}, err
	}
	return soak.Node{
		Name: strings.ToLower(facts.Name), Cgroup: hostnode.UnifiedFolder, Lanes: min(len(facts.NICs), 4),
	}, nil
}
