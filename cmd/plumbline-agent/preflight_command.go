// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/internal/agent"
	"plumbline.dev/plumbline/internal/agent/preflight"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// newPreflightCommand runs before a container that replaces the driver of NICs.
func newPreflightCommand() *cobra.Command {
	o := preflight.Options{
		Module: "mlx5_core", Drivers: []string{slicecodec.DriverNet}, StateDir: agent.DefaultOptions().StateDir, Root: "/",
	}
	cmd := &cobra.Command{
		Use:   "driver-preflight",
		Short: "Fail where the host or a pod would lose something if the driver of NICs were unloaded",
		Long: `driver-preflight fails, and says why, where this host's way out, its storage over RDMA
or a pod hangs from a NIC of a kernel module. It changes nothing, and runs in the host's
network namespace.`,
		Example: `  # what the chart runs before the containers of nicDriver.images
  plumbline-agent driver-preflight --module=mlx5_core`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return preflight.Run(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.Module, "module", o.Module, "the kernel module that drives the NICs")
	f.StringVar(&o.StateDir, "state-dir", o.StateDir, "the agent's --state-dir")
	f.StringVar(&o.Root, "root", o.Root, "a directory with the host's sys")
	return cmd
}
