// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"plumbline.dev/plumbline/internal/atomicfile"
)

// Install puts the program at path, whole or not at all, and runs it once. The
// path must be the same on the host, where the container runtime runs it, also
// while no agent is there. A container that starts meanwhile has the old program
// or the new one.
func Install(ctx context.Context, source, path string) error {
	if err := copyWhole(source, path); err != nil {
		return fmt.Errorf("install %s: %w", path, err)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, SelfTest).CombinedOutput()
	if err != nil {
		return fmt.Errorf("run %s once: %w: %s", path, err, strings.TrimSpace(string(out)))
	}
	if got := strings.TrimSpace(string(out)); got != Works {
		return fmt.Errorf("run %s once: it says %q: want %q", path, got, Works)
	}
	return nil
}

func copyWhole(source, path string) (err error) {
	in, err := os.Open(source)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(path, 0o755, in)
}
