// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
)

// execute runs a claim command that prints to nobody.
func execute(b *testing.B, args ...string) {
	b.Helper()
	root := &cobra.Command{Use: "plumbline"}
	root.AddGroup(&cobra.Group{ID: "g", Title: "g"})
	root.AddCommand(NewCommand("g"))
	root.SetOut(io.Discard)
	root.SetArgs(append([]string{"claim"}, args...))
	if err := root.Execute(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkClaimNew writes the largest claim of pairs that the API takes: ten of
// them, with a fallback.
func BenchmarkClaimNew(b *testing.B) {
	for b.Loop() {
		execute(b, "new", "--gpus", "10", "--nics", "10", "--cpus", "40", "--fallback", "numa", "--mtu", "8896")
	}
}

// BenchmarkClaimLint checks the 22 objects of the examples that are ours to check.
func BenchmarkClaimLint(b *testing.B) {
	folders, err := filepath.Glob("../../../examples/*/manifests")
	if err != nil || len(folders) < 5 {
		b.Fatal(folders, err)
	}
	args := []string{"lint"}
	for _, f := range folders {
		args = append(args, "-f", f)
	}
	for b.Loop() {
		execute(b, args...)
	}
}
