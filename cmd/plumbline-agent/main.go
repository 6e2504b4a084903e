// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Command plumbline-agent serves a node's NICs, CPUs and GPUs to Kubernetes.
// Here flags become options; nothing else happens here.
//
// Build it with -tags=grpcnotrace: without gRPC's tracing pages the linker can
// drop unused methods, which takes a third off the program and a quarter off
// its memory.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand(lookAround()).ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "plumbline-agent:", err)
		os.Exit(1)
	}
}

// surroundings are the defaults that come from where the program runs.
type surroundings struct {
	nodeName, podUID string
	// guard is the plumbline-guard beside this program; empty where none is.
	guard string
}

func lookAround() surroundings {
	s := surroundings{nodeName: os.Getenv("NODE_NAME"), podUID: os.Getenv("POD_UID")}
	if own, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(own), "plumbline-guard")
		if _, err := os.Stat(beside); err == nil {
			s.guard = beside
		}
	}
	return s
}

func newCommand(own surroundings) *cobra.Command {
	root := newAgentCommand(own)
	root.AddCommand(newHealthCommand(), newMetricsCommand(), newVerifyCommand(), newDevicePluginsCommand(), newRDMACountersCommand(), newLeaveCommand(), newHostSetupCommand(), newPreflightCommand())
	return root
}
