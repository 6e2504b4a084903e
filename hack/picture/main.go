// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Command picture draws a shipped machine, as `plumbline topo --machine` does,
// without anything that talks to a cluster: from a fresh clone it compiles in
// half the time, and there is something to look at while the rest builds.
package main

import (
	"context"
	"fmt"
	"os"

	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/topoview"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: picture MACHINE")
		os.Exit(2)
	}
	if err := draw(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

func draw(ctx context.Context, name string) error {
	facts, err := machine.OpenFacts(name)
	if err != nil {
		return err
	}
	tree, err := machine.Render(facts)
	if err != nil {
		return err
	}
	sources := inventory.Sources{Sys: tree, GPUs: inventory.Listed(facts.ModelGPUs())}
	m, _, err := inventory.Scan(ctx, sources, inventory.Options{Name: facts.Name, Architecture: facts.Arch})
	if err != nil {
		return err
	}
	return topoview.Text(os.Stdout, topoview.Build(m, topoview.Options{Source: "machine file " + name}), topoview.TextOptions{})
}
