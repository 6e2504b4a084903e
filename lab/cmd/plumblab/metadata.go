// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/lab/metadata"
)

// newMetadata is what up starts beside a guest; people have no use for it.
func newMetadata() *cobra.Command {
	var name, listen string
	cmd := &cobra.Command{
		Use:    metadata.Command,
		Short:  "Serve a GCE metadata server for a node with a machine's hardware",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			facts, err := machine.OpenFacts(name)
			if err != nil {
				return fmt.Errorf("--machine: %w", err)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM)
			defer stop()
			var config net.ListenConfig
			l, err := config.Listen(ctx, "tcp", listen)
			if err != nil {
				return fmt.Errorf("--listen: %w", err)
			}
			return metadata.Serve(ctx, l, facts)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&name, "machine", "", "a shipped machine's `NAME|FILE` of a machine file")
	flags.StringVar(&listen, "listen", "", "`ADDRESS` to listen on")
	return cmd
}
