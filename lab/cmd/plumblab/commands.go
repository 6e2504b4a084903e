// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/lab/build"
	"plumbline.dev/plumbline/lab/cluster"
)

func newUp(g *global) *cobra.Command {
	var options cluster.Options
	var simulate, where string
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Build what is missing and start the cluster",
		Long: `up builds what is missing, starts the control plane and the node, and installs
plumbline as its users would. Called again it finishes what is not up yet and
leaves the rest alone.`,
		Example: `  plumblab up
  plumblab up --machine egx-t4-cx5 --name egx
  plumblab up --gpu nvidia
  plumblab up --machine ./my-server.yaml --cpus 8 --memory 8192
  plumblab up --simulate azure-nd96isr-h100-v5=2,gcp-ct6e-standard-4t=4
  plumblab up --name older --kubernetes 1.36 --containerd 2.2`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := place(cmd, where, &options); err != nil {
				return err
			}
			if options.Simulate, err = cluster.ParseSimulated(simulate); err != nil {
				return err
			}
			builder, err := g.artifactBuilder(cmd.Context(), cmd)
			if err != nil {
				return err
			}
			c, err := g.open()
			if err != nil {
				return err
			}
			return c.Up(cmd.Context(), builder, options)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&options.Machine, "machine", "a3-ultragpu-8g", "the node's hardware: a shipped machine's `NAME|FILE` of a machine file")
	flags.StringVar(&where, "node", inVM, whereUsage)
	flags.IntVar(&options.CPUs, "cpus", 0, "CPUs the node really gets, spread over its NUMA nodes (default 16)")
	flags.IntVar(&options.MemoryMiB, "memory", 0, "memory in MiB the node may use; this host pays for what is touched (default 20480)")
	flags.StringVar(&simulate, "simulate", "", "further nodes that only publish the slices of a machine, as `NAME=COUNT,…`")
	gpuFlag(cmd, &options, "")
	guestFlag(cmd, &options.Guest, "")
	flags.BoolVar(&options.NoInstall, "no-install", false, "leave plumbline out")
	flags.BoolVar(&options.NoNode, "no-node", false, "start the control plane only")
	versionFlags(cmd, &options.Versions)
	return cmd
}

// gpuFlag chooses who serves GPUs; without a usual choice it is as a running node has it.
func gpuFlag(cmd *cobra.Command, options *cluster.Options, usual string) {
	usage := "who serves the machine's GPUs: `WHO` is " + cluster.GPUsOfNVIDIA + " (NVIDIA's DRA driver, over a stand-in of NVIDIA's library), " +
		cluster.GPUsSimulated + " (plumbline) or " + cluster.GPUsNone
	if usual == "" {
		usage += " (default: as the running node has it, or " + cluster.GPUsSimulated + ")"
	}
	cmd.Flags().StringVar(&options.GPUs, "gpu", usual, usage)
}

// guestFlag chooses what runs below a virtual machine's node; without a usual choice it
// is as a running node has it.
func guestFlag(cmd *cobra.Command, guest *string, usual string) {
	usage := "the virtual machine's kernel: `KIND` is " + cluster.GuestUsual + " (the host's Debian release's) or " +
		cluster.GuestRDMA + " (a newer one, whose soft RoCE works in pods, and perftest)"
	if usual == "" {
		usage += " (default: as the running node has it, or " + cluster.GuestUsual + ")"
	}
	cmd.Flags().StringVar(guest, "guest", usual, usage)
}

// Where a node runs.
const (
	inVM       = "vm"
	onHost     = "host"
	whereUsage = "where the node runs: in a virtual machine (vm), or, for root, in namespaces on this host (host), at native speed and with virtual links for NICs"
)

// place says where the options' node runs. On this host there is no hardware to
// choose.
func place(cmd *cobra.Command, where string, options *cluster.Options) error {
	switch where {
	case inVM:
		return nil
	case onHost:
	default:
		return fmt.Errorf("--node %q: want %s or %s", where, inVM, onHost)
	}
	for _, name := range []string{"machine", "cpus", "memory", "guest"} {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--node %s has this host's hardware: leave --%s out", onHost, name)
		}
	}
	if err := checkHost(cmd); err != nil {
		return fmt.Errorf("--node %s: %w", onHost, err)
	}
	options.OnHost, options.Machine, options.CPUs, options.MemoryMiB = true, cluster.HostNodeName, 0, 0
	return nil
}

func newDown(g *global) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop the cluster and remove its state; builds and logs stay",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := g.open()
			if err != nil {
				return err
			}
			return c.Down(cmd.Context())
		},
	}
}

func newBuild(g *global) *cobra.Command {
	var versions build.Versions
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build and download everything up and demo need, and start nothing",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			builder, err := g.artifactBuilder(cmd.Context(), cmd)
			if err != nil {
				return err
			}
			_, err = builder.All(cmd.Context(), versions, true)
			return err
		},
	}
	versionFlags(cmd, &versions)
	return cmd
}

func newKubeconfig(g *global) *cobra.Command {
	return &cobra.Command{
		Use:     "kubeconfig",
		Short:   "Print the path of the administrator's kubeconfig",
		Example: `  export KUBECONFIG=$(plumblab kubeconfig)`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := g.open()
			if err != nil {
				return err
			}
			path, err := c.Kubeconfig()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), path)
			return err
		},
	}
}
