// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/internal/agent"
	"plumbline.dev/plumbline/internal/agent/leave"
)

// newLeaveCommand is the end of an uninstallation on a node.
func newLeaveCommand() *cobra.Command {
	defaults := agent.DefaultOptions()
	o := leave.Options{StateDir: defaults.StateDir, CDIDir: defaults.CDIDir, KubeletRoot: defaults.KubeletRoot}
	drivers := []string{"net", "cpu"}
	var stay bool
	cmd := &cobra.Command{
		Use:   "leave",
		Short: "Remove from this host what agents keep on it, once none serves and no claim is prepared",
		Long: `leave waits until no agent serves on this host, and removes what agents keep on it:
plumbline-guard and all else of the state directory, CDI specs, and sockets of agents that
were killed. Where claims are prepared it removes nothing, and fails.`,
		Example: `  # what an uninstallation by Helm does on every node
  plumbline-agent leave --drivers=net,cpu`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.Drivers, err = agent.ParseDrivers(drivers); err != nil {
				return fmt.Errorf("--drivers: %w", err)
			}
			if err := leave.Run(cmd.Context(), o, cmd.OutOrStdout()); err != nil || !stay {
				return err
			}
			<-cmd.Context().Done()
			return nil
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&drivers, "drivers", drivers, "drivers that were served: net, cpu, gpu")
	f.StringVar(&o.StateDir, "state-dir", o.StateDir, "the agents' --state-dir")
	f.StringVar(&o.CDIDir, "cdi-dir", o.CDIDir, "the agents' --cdi-dir")
	f.StringVar(&o.KubeletRoot, "kubelet-root", o.KubeletRoot, "the agents' --kubelet-root")
	f.BoolVar(&stay, "stay", false, "stay when it is done, until a signal: pods of a DaemonSet must not end")
	return cmd
}
