// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Command plumbline-explainer tells pods why their ResourceClaims cannot be
// allocated, by events. Here flags become options; nothing else happens here.
//
// It is no part of plumbline-agent: the libraries it needs to explain would cost the agent
// a megabyte of memory on every node.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "plumbline-explainer:", err)
		os.Exit(1)
	}
}
