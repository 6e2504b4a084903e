// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"plumbline.dev/plumbline/lab/cache"
	"plumbline.dev/plumbline/lab/progress"
)

// needsCompiler skips a test where the stand-in cannot be compiled, and fails it in CI.
func needsCompiler(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		why := fmt.Sprintf("the stand-in is C: %v; install gcc and libc6-dev", err)
		if os.Getenv("CI") == "true" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
}

// TestBuild compiles once for the same inputs.
func TestBuild(t *testing.T) {
	needsCompiler(t)
	c, err := cache.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var first os.FileInfo
	for range 2 {
		path, err := Build(context.Background(), c, progress.New(io.Discard, false, time.Now), filepath.Join("..", ".."))
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if first != nil && !os.SameFile(first, info) {
			t.Error("the second build made another file")
		}
		first = info
	}
}
