// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"plumbline.dev/plumbline/lab/cache"
	"plumbline.dev/plumbline/lab/progress"
)

// TestBuild compiles once for the same inputs.
func TestBuild(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skipf("the stand-in is C: %v; install gcc and libc6-dev", err)
	}
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
