// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package systree

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// small is a tree with a link in the middle of a way.
func small(t *testing.T) *Tree {
	t.Helper()
	tree := New()
	for _, err := range []error{
		tree.AddFile("devices/pci0000:00/0000:00:01.0/net/eth0/mtu", "8896\n"),
		tree.AddFile("devices/pci0000:00/0000:00:01.0/vendor", "0x1ae0\n"),
		tree.AddLink("devices/pci0000:00/0000:00:01.0/net/eth0/device", "devices/pci0000:00/0000:00:01.0"),
		tree.AddLink("class/net/eth0", "devices/pci0000:00/0000:00:01.0/net/eth0"),
		tree.AddDir("bus/pci/drivers/gve"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

func TestTreeIsAFileSystem(t *testing.T) {
	tree := small(t)
	if err := fstest.TestFS(tree, "bus/pci/drivers/gve", "devices/pci0000:00/0000:00:01.0/vendor"); err != nil {
		t.Error(err)
	}
	for path, want := range map[string]string{
		"class/net/eth0/mtu":           "8896\n",
		"class/net/eth0/device/vendor": "0x1ae0\n",
	} {
		if got, err := fs.ReadFile(tree, path); err != nil || string(got) != want {
			t.Errorf("%s = %q, %v", path, got, err)
		}
	}
}

func TestWriteTo(t *testing.T) {
	tree := small(t)
	dir := filepath.Join(t.TempDir(), "deep", "machine")
	if err := tree.WriteTo(dir); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"class/net/eth0/mtu", "sys/class/net/eth0/mtu"} {
		if got, err := os.ReadFile(filepath.Join(dir, path)); err != nil || string(got) != "8896\n" {
			t.Errorf("%s = %q, %v", path, got, err)
		}
	}
	if err := tree.WriteTo(dir); err == nil || !strings.Contains(err.Error(), "want an empty directory") {
		t.Errorf("a second write says %v", err)
	}
	left, err := os.ReadDir(filepath.Dir(dir))
	if err != nil || len(left) != 1 {
		t.Errorf("beside the tree lies %v, %v", left, err)
	}
	empty := t.TempDir()
	if err := tree.WriteTo(empty); err != nil {
		t.Errorf("an empty directory is refused: %v", err)
	}
}

func TestTreeRefuses(t *testing.T) {
	for name, add := range map[string]func(*Tree) error{
		"absolute":        func(t *Tree) error { return t.AddFile("/etc/passwd", "") },
		"parent":          func(t *Tree) error { return t.AddFile("../x", "") },
		"inner parent":    func(t *Tree) error { return t.AddFile("a/../../x", "") },
		"link out":        func(t *Tree) error { return t.Add(Entry{Path: "a/b", Mode: fs.ModeSymlink, Text: "../../x"}) },
		"link to root":    func(t *Tree) error { return t.Add(Entry{Path: "a/b", Mode: fs.ModeSymlink, Text: "/x"}) },
		"below a file":    func(t *Tree) error { return t.AddFile("file/x", "") },
		"below a link":    func(t *Tree) error { return t.AddFile("link/x", "") },
		"twice":           func(t *Tree) error { return t.AddFile("file", "") },
		"over directory":  func(t *Tree) error { return t.AddFile("dir", "") },
		"line end inside": func(t *Tree) error { return t.AddFile("a\nb", "") },
	} {
		tree := New()
		for _, err := range []error{tree.AddFile("file", "x\n"), tree.AddLink("link", "dir"), tree.AddDir("dir/inner")} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := add(tree); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestTreeLinkLoop(t *testing.T) {
	tree := New()
	for _, err := range []error{tree.AddLink("a", "b"), tree.AddLink("b", "a")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := fs.ReadFile(tree, "a"); err == nil || !strings.Contains(err.Error(), "symbolic links") {
		t.Errorf("got %v", err)
	}
}
