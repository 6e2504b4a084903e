// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"os"
	"path/filepath"
	"testing"
)

// The verbs library looks for a device's driver below /usr, which other libraries of the
// guest are without.
func TestRDMATools(t *testing.T) {
	root := t.TempDir()
	const driver = "usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so"
	for _, file := range []string{
		"usr/bin/ib_write_lat", "usr/bin/ib_write_bw", "usr/bin/ibv_devinfo",
		"usr/lib/x86_64-linux-gnu/libibverbs.so.1", "etc/libibverbs.d/rxe.driver",
	} {
		makeFile(t, filepath.Join(root, file))
	}
	if files, err := RDMATools(root); err == nil {
		t.Errorf("without soft RoCE's driver: %v, want an error", files)
	}
	makeFile(t, filepath.Join(root, driver))
	makeFile(t, filepath.Join(root, "usr/lib/x86_64-linux-gnu/libibverbs/libmlx5-rdmav34.so"))
	files, err := RDMATools(root)
	if err != nil {
		t.Fatal(err)
	}
	for inside, below := range map[string]string{
		"/usr/bin/ib_write_bw": "usr/bin/ib_write_bw", "/" + driver: driver,
		"/lib/x86_64-linux-gnu/libibverbs.so.1": "usr/lib/x86_64-linux-gnu/libibverbs.so.1",
		"/etc/libibverbs.d/rxe.driver":          "etc/libibverbs.d/rxe.driver",
	} {
		if files[inside].Source != filepath.Join(root, below) {
			t.Errorf("%s is %q, want %s", inside, files[inside].Source, below)
		}
	}
	if len(files) != 6 {
		t.Errorf("%d files, want 6: %v", len(files), files)
	}
}

func makeFile(t *testing.T, name string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, nil, 0o755); err != nil {
		t.Fatal(err)
	}
}
