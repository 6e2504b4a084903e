// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Command plumbline shows and proves where GPUs, NICs and CPUs sit. Installed
// as kubectl-plumbline it is the kubectl plugin "kubectl plumbline".
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"plumbline.dev/plumbline/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, os.Args[0], os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
