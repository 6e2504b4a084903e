// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/internal/agent"
	"plumbline.dev/plumbline/internal/agent/local"
)

// newHealthCommand is the exec probe: it asks the agent of the same container.
func newHealthCommand() *cobra.Command {
	return newAskCommand("healthz", "Ask the running agent whether it is ready; say what it waits for if not", agent.HealthPath)
}

// newMetricsCommand is for people, and for where nothing scrapes.
func newMetricsCommand() *cobra.Command {
	return newAskCommand("metrics", "Print the running agent's metrics", agent.MetricsPath)
}

func newAskCommand(name, short, path string) *cobra.Command {
	socket := agent.DefaultOptions().Socket
	cmd := &cobra.Command{
		Use:   name,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			answer, err := local.Ask(cmd.Context(), socket, path)
			if err != nil {
				return err
			}
			_, err = io.WriteString(cmd.OutOrStdout(), answer)
			return err
		},
	}
	cmd.Flags().StringVar(&socket, "socket", socket, "the agent's --socket")
	return cmd
}
