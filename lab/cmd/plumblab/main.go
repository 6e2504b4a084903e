// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Command plumblab runs a whole Kubernetes cluster on one machine, without
// root and without a registry, for the people who work on plumbline and for
// its demonstration.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newRoot().ExecuteContext(ctx)
	stop()
	if code := exitCode(0); errors.As(err, &code) {
		os.Exit(int(code))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "plumblab:", err)
		os.Exit(1)
	}
}
