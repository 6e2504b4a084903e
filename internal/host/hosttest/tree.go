// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

// Tree makes a file system from text, one entry a line:
//
//	devices/pci0000:8c/0000:8d:00.0/class = 0x060400
//	bus/pci/devices/0000:8d:00.0 -> ../../../devices/pci0000:8c/0000:8d:00.0
//
// Files end in a line end, as sysfs attributes do; \n in a value is a line
// end too. Empty lines and lines that start with # are passed over.
func Tree(t testing.TB, text string) fstest.MapFS {
	t.Helper()
	tree := fstest.MapFS{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if name, target, ok := strings.Cut(line, " -> "); ok {
			tree[name] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
			continue
		}
		name, value, ok := strings.Cut(line, " =")
		if !ok {
			t.Fatalf("tree: line %q has neither -> nor =", line)
		}
		value = strings.ReplaceAll(strings.TrimPrefix(value, " "), `\n`, "\n")
		tree[name] = &fstest.MapFile{Data: []byte(value + "\n"), Mode: 0o444}
	}
	return tree
}
