// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestRelink(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "usr/lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "usr/lib/x"), []byte("inside"), 0o644); err != nil {
		t.Fatal(err)
	}
	links := map[string]string{"absolute": "/usr/lib/x", "relative": "usr/lib/x"}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := relink(root); err != nil {
		t.Fatal(err)
	}
	for name := range links {
		if data, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(data) != "inside" {
			t.Errorf("%s leads to %q, %v", name, data, err)
		}
	}
}

// TestUnpackedQEMU runs an emulator that an earlier plumblab unpacked.
func TestUnpackedQEMU(t *testing.T) {
	found, err := filepath.Glob("../../.cache/store/qemu/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, root := range found {
		if strings.HasSuffix(root, "lock") {
			continue
		}
		program, err := unpackedQEMU(root)
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), program.Path, append(program.Args, "--version")...).CombinedOutput()
		if err != nil || !newEnough(string(out), 7, 2) {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	t.Skip("no emulator is unpacked in .cache: run plumblab build where QEMU is not installed")
}
