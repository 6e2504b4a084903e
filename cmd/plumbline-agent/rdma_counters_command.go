// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/internal/host/sysfs"
)

// newRDMACountersCommand is what "plumbline bench" runs in the agent's pod, which is in the
// host's network namespace, where the kernel shows them.
func newRDMACountersCommand() *cobra.Command {
	root := "/sys"
	cmd := &cobra.Command{
		Use:   "rdma-counters DEVICE...",
		Short: "Print how many packets RDMA devices have received and sent",
		Long: `rdma-counters prints a line for each counter of packets of each RDMA device's first port:
the device, the file and the number.`,
		Example: `  # what has mlx5_0 sent?
  plumbline-agent rdma-counters mlx5_0`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, devices []string) error {
			for _, device := range devices {
				counters, err := sysfs.ReadRDMAPackets(os.DirFS(root), device)
				if err != nil {
					return err
				}
				for _, c := range counters {
					fmt.Fprintln(cmd.OutOrStdout(), device, c.File, c.Value)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&root, "sysfs-root", root, "the host's /sys")
	return cmd
}
