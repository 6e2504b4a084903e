// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package pciids

import (
	"os"
	"path/filepath"
	"testing"
)

func TestFileRemembers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pci.ids")
	if err := os.WriteFile(path, []byte(database), 0o644); err != nil {
		t.Fatal(err)
	}
	file := Open(path)
	want := ID{0x10de, 0x2335}
	if _, err := file.Lookup([]ID{want}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	names, err := file.Lookup([]ID{want, {0x15b3, 0x101e}})
	if err != nil || names[want].Vendor != "NVIDIA Corporation" || len(names) != 1 {
		t.Errorf("after the file went: %v, %v", names, err)
	}
}
