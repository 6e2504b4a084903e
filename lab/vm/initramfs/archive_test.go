// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package initramfs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/u-root/u-root/pkg/cpio"
)

func TestWrite(t *testing.T) {
	source := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(source, []byte("run me"), 0o600); err != nil {
		t.Fatal(err)
	}
	files := Files{
		"/usr/bin/program": {Source: source, Mode: 0o755},
		"/bin/sh":          {Link: "busybox"},
		"/etc/hostname":    {Content: []byte("node\n")},
		"/etc/empty":       {},
	}
	var first, second bytes.Buffer
	for _, w := range []*bytes.Buffer{&first, &second} {
		if err := Write(w, files, Dirs{"/var/lib", "/etc"}); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two archives of the same files differ")
	}
	var got []string
	inodes := map[uint64]bool{}
	records, err := cpio.ReadAllRecords(cpio.Newc.Reader(bytes.NewReader(first.Bytes())))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if inodes[r.Ino] || r.UID != 0 || r.MTime != 0 {
			t.Errorf("%s: %+v", r.Name, r.Info)
		}
		inodes[r.Ino] = true
		content := make([]byte, r.FileSize)
		if _, err := r.ReadAt(content, 0); err != nil && r.FileSize > 0 {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%06o %s %q", r.Mode, r.Name, content))
	}
	want := []string{
		`040755 etc ""`, `040755 var ""`, `040755 var/lib ""`, `040755 bin ""`, `120777 bin/sh "busybox"`, `100644 etc/empty ""`,
		`100644 etc/hostname "node\n"`, `040755 usr ""`, `040755 usr/bin ""`, `100755 usr/bin/program "run me"`,
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}

func TestWriteRefuses(t *testing.T) {
	for name, files := range map[string]Files{
		"relative":    {"etc/x": {}},
		"not clean":   {"/etc/../x": {}},
		"no source":   {"/x": {Source: "/does/not/exist"}},
		"folder":      {"/x": {Source: "/tmp"}},
		"parent link": {"/a//b": {}},
	} {
		if err := Write(new(bytes.Buffer), files, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestParseDepends(t *testing.T) {
	for info, want := range map[string]string{
		"license=GPL\x00depends=ib_core,udp_tunnel\x00name=rdma_rxe\x00": "[ib_core udp_tunnel]",
		"depends=\x00": "[]", "": "[]", "undepends=x\x00": "[]",
	} {
		if got := fmt.Sprint(parseDepends([]byte(info))); got != want {
			t.Errorf("%q: %s, want %s", info, got, want)
		}
	}
}

func TestModulesMissing(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "modules.builtin"), []byte("kernel/net/ipv6/ipv6.ko\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := OpenModules(dir)
	if err != nil {
		t.Fatal(err)
	}
	if files, err := m.Load("ipv6"); err != nil || len(files) != 0 {
		t.Errorf("built-in module: %v %v", files, err)
	}
	if _, err := m.Load("e1000e"); err == nil || !strings.Contains(err.Error(), "e1000e") {
		t.Errorf("missing module: %v", err)
	}
}

// A newer release's modules are compressed, and some are part of the kernel: user.ko.xz
// needs needed.ko and one that its release lists as built in.
func TestPackedModules(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{"user.ko.xz", "needed.ko"} {
		content, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "modules.builtin"), []byte("kernel/x/is_in_kernel.ko\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := OpenModules(dir)
	if err != nil {
		t.Fatal(err)
	}
	files, err := m.Load("user", "crc32_generic")
	want := []string{filepath.Join(dir, "needed.ko"), filepath.Join(dir, "user.ko.xz")}
	if err != nil || !slices.Equal(files, want) {
		t.Errorf("load %v, %v, want %v", files, err, want)
	}
}

func FuzzParseDepends(f *testing.F) {
	f.Add([]byte("depends=a,b\x00"))
	f.Fuzz(func(_ *testing.T, info []byte) { parseDepends(info) })
}
