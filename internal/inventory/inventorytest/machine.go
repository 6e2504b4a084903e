// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package inventorytest scans machine files for tests of what is done with a machine.
package inventorytest

import (
	"testing"

	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/model"
)

// Machine goes the way of plumbline topo --machine: facts, tree, scan.
func Machine(t testing.TB, nameOrPath string) *model.Machine {
	t.Helper()
	facts, err := machine.OpenFacts(nameOrPath)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := machine.Render(facts)
	if err != nil {
		t.Fatal(err)
	}
	m, problems, err := inventory.Scan(t.Context(),
		inventory.Sources{Sys: tree, GPUs: inventory.Listed(facts.ModelGPUs())},
		inventory.Options{Name: facts.Name, Architecture: facts.Arch})
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	return m
}
