// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"plumbline.dev/plumbline/internal/host/sysfs"
	"plumbline.dev/plumbline/internal/model"
)

// faults are the ways in which one entry of /sys goes wrong.
var faults = map[string]func(name string) error{
	"gone":          func(string) error { return nil },
	"empty":         func(name string) error { return os.WriteFile(name, nil, 0o644) },
	"nonsense":      func(name string) error { return os.WriteFile(name, []byte("nonsense\n"), 0o644) },
	"minus one":     func(name string) error { return os.WriteFile(name, []byte("-1\n"), 0o644) },
	"too high":      func(name string) error { return os.WriteFile(name, []byte("65535\n"), 0o644) },
	"a giant list":  func(name string) error { return os.WriteFile(name, []byte("0-4294967295\n"), 0o644) },
	"a giant file":  func(name string) error { return os.WriteFile(name, bytes.Repeat([]byte("9"), 1<<20), 0o644) },
	"not UTF-8":     func(name string) error { return os.WriteFile(name, []byte("\xff\xfe\n"), 0o644) },
	"a loop":        func(name string) error { return os.Symlink(filepath.Base(name), name) },
	"a way out":     func(name string) error { return os.Symlink(strings.Repeat("../", 40)+"etc/passwd", name) },
	"a bad link":    func(name string) error { return os.Symlink("\xff", name) },
	"a directory":   func(name string) error { return os.Mkdir(name, 0o755) },
	"a wrong place": func(name string) error { return os.Symlink("../../../devices/system", name) },
}

// TestOneFaultCostsOneDevice breaks each entry of a machine in every way, one at
// a time: the scan goes on, and at most the devices at or below that entry are
// missing. The tree lies on disk, where links are the kernel's to follow.
func TestOneFaultCostsOneDevice(t *testing.T) {
	if testing.Short() {
		t.Skip("reads fixtures only: the same on every kernel")
	}
	whole := tree(t, small())
	dir := t.TempDir()
	if err := os.CopyFS(dir, whole); err != nil {
		t.Fatal(err)
	}
	sys, err := sysfs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sys.Close() })
	before, _ := scanned(t, Sources{Sys: sys}, Options{})
	for name, entry := range whole {
		at := filepath.Join(dir, name)
		for fault, do := range faults {
			if err := errors.Join(os.RemoveAll(at), do(at)); err != nil {
				t.Fatal(err)
			}
			m, problems, err := Scan(t.Context(), Sources{Sys: sys}, Options{})
			if err != nil {
				t.Errorf("%s is %s: no machine at all: %v", name, fault, err)
				continue
			}
			checkLoss(t, name+" is "+fault, name, before, m)
			checkLines(t, name+" is "+fault, problems)
		}
		if err := errors.Join(os.RemoveAll(at), restore(at, entry)); err != nil {
			t.Fatal(err)
		}
	}
}

func restore(at string, entry *fstest.MapFile) error {
	if entry.Mode&fs.ModeSymlink != 0 {
		return os.Symlink(string(entry.Data), at)
	}
	return os.WriteFile(at, entry.Data, 0o644)
}

func checkLines(t *testing.T, fault string, problems []Problem) {
	t.Helper()
	for _, p := range problems {
		if line := p.String(); len(line) > 400 || strings.Contains(line, "\n") {
			t.Errorf("%s: problem of %d bytes is not one line: %.100q", fault, len(line), line)
		}
	}
}

func checkLoss(t *testing.T, fault, name string, before, after *model.Machine) {
	t.Helper()
	switch {
	case strings.HasPrefix(name, "devices/system/node"), strings.HasPrefix(name, "devices/system/cpu"):
		if len(after.NICs) != len(before.NICs) || len(after.Functions) != len(before.Functions) {
			t.Errorf("%s: devices are missing, but it says nothing of devices", fault)
		}
		return
	}
	if len(after.CPUs) != len(before.CPUs) {
		t.Errorf("%s: CPUs are missing", fault)
	}
	// A PCI function may take its interfaces and RDMA devices with it.
	if lost := len(before.Functions) - len(after.Functions); lost > 1 {
		t.Errorf("%s: %d PCI functions are missing, want at most one", fault, lost)
	}
	if lost := len(before.NICs) - len(after.NICs); lost > 2 {
		t.Errorf("%s: %d NICs are missing, want at most those of one function", fault, lost)
	}
}

// failing is a tree whose files fail with an error once they are opened often
// enough, as those of a device do that is pulled while it is read.
type failing struct {
	fstest.MapFS
	opens, after int
	err          error
}

func (f *failing) Open(name string) (fs.File, error) {
	f.opens++
	if f.opens > f.after && strings.Contains(name, "0000:11:00.0") {
		return nil, &fs.PathError{Op: "open", Path: name, Err: f.err}
	}
	return f.MapFS.Open(name)
}

func (f *failing) ReadFile(string) ([]byte, error) { panic("readers bound what they read") }

func TestDeviceVanishesMidScan(t *testing.T) {
	if testing.Short() {
		t.Skip("reads fixtures only: the same on every kernel")
	}
	whole := tree(t, small())
	for _, err := range []error{syscall.ENODEV, syscall.EIO, syscall.EACCES, fs.ErrNotExist} {
		for after := range 150 {
			f := &failing{MapFS: whole, after: after, err: err}
			m, _ := scanned(t, Sources{Sys: f}, Options{})
			if len(m.NICs) < 8 || len(m.CPUs) != 4 {
				t.Fatalf("%v after %d files: got %d NICs, want the 8 that are well\n%s", err, after, len(m.NICs), nicLines(m.NICs))
			}
		}
	}
}

func TestNamesThatAreNoText(t *testing.T) {
	broken := tree(t, small())
	for _, dir := range []string{"class/net/", "class/infiniband/", "bus/pci/devices/", "class/drm/"} {
		broken[dir+"two\nlines"] = &fstest.MapFile{Data: []byte("../../devices/virtual/net/two\nlines"), Mode: fs.ModeSymlink | 0o777}
		broken[dir+"eth\xff"] = &fstest.MapFile{Data: []byte("../../devices/virtual/net/eth\xff"), Mode: fs.ModeSymlink | 0o777}
	}
	m, problems := scanned(t, Sources{Sys: broken}, Options{})
	if len(m.NICs) != 9 {
		t.Errorf("got %d NICs, want all 9:\n%s", len(m.NICs), nicLines(m.NICs))
	}
	if len(problems) != 6 {
		t.Errorf("want a problem for each of two names in three directories, got:\n%s", problemLines(problems))
	}
	checkLines(t, "names", problems)
}

func TestThousandLinks(t *testing.T) {
	b := small()
	for i := range 1000 {
		b.net("devices/virtual", fmt.Sprintf("veth%d", i), 100+i, 0)
	}
	sys := tree(t, b)
	m, problems := scanned(t, Sources{Sys: sys}, Options{})
	if len(m.NICs) != 9 || len(problems) != 0 {
		t.Errorf("got %d NICs and %d problems, want the 9 of the hardware", len(m.NICs), len(problems))
	}
	m, problems = scanned(t, Sources{Sys: sys}, Options{Virtual: func(model.Interface) bool { return true }})
	if len(m.NICs) != 1010 || len(problems) != 0 {
		t.Errorf("with all virtual links: got %d NICs and %d problems, want 1010", len(m.NICs), len(problems))
	}
}
