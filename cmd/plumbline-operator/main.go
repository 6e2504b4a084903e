// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Command plumbline-operator is what plumbline runs once in a cluster: it tells pods why
// their ResourceClaims cannot be allocated, makes conditions of nodes of what agents
// report of hosts, and sums the installation up. Here flags become options; nothing else
// happens here.
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

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	ctrl.SetLogger(klog.Background()) // of what the library does outside of its controllers
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "plumbline-operator:", err)
		os.Exit(1)
	}
}
