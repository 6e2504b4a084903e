// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostreport

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/model"
)

// host is a /sys and a /proc in which the first process has a root directory of its own.
func host(t *testing.T, self string) (p Paths, root string) {
	t.Helper()
	dir := t.TempDir()
	p = Paths{Sys: filepath.Join(dir, "sys"), Proc: filepath.Join(dir, "procfs"), NRI: filepath.Join(dir, "nri")}
	root = filepath.Join(dir, "root")
	for _, d := range []string{p.Sys, filepath.Join(p.Proc, "1"), filepath.Join(p.Proc, "sys/kernel"), p.NRI, filepath.Join(root, "boot"), filepath.Join(root, "proc")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		filepath.Join(p.Proc, "sys/kernel/osrelease"): "6.12.0-hostile\x1b[31m\n",
		filepath.Join(root, "boot/config"):            "CONFIG",
		filepath.Join(root, "proc/fake"):              "not the mounted one",
		filepath.Join(p.NRI, "nri.sock"):              "",
		filepath.Join(dir, "outside"):                 "of the container",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		filepath.Join(p.Proc, "self"):      self,
		filepath.Join(p.Proc, "1/root"):    root,
		filepath.Join(root, "boot/escape"): filepath.Join(dir, "outside"),
	} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	return p, root
}

func TestFilesOfTheHost(t *testing.T) {
	p, _ := host(t, "4711")
	files := openFiles(p)
	defer func() { _ = files.close() }()
	for _, name := range []string{"boot/config", "proc/sys/kernel/osrelease", "run/nri/nri.sock"} {
		if _, err := fs.ReadFile(files, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := fs.Stat(files, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"dev/infiniband/uverbs0", "proc/fake", "sys/module"} {
		if _, err := fs.Stat(files, name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want that it is not there", name, err)
		}
	}
	for _, name := range []string{"boot/escape", "../outside", "/boot/config"} {
		if text, err := fs.ReadFile(files, name); err == nil {
			t.Errorf("%s is read: %q", name, text)
		}
	}
	for name, want := range map[string]string{"proc/self": "4711", "boot/escape": filepath.Join(filepath.Dir(p.Sys), "outside"), "boot/config": "", "../outside": ""} {
		if target, err := fs.ReadLink(files, name); target != want || (err == nil) != (want != "") {
			t.Errorf("%s leads to %q, %v; want %q", name, target, err, want)
		}
	}
	if info, err := fs.Lstat(files, "boot/escape"); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("boot/escape: %v, %v, want a link", info, err)
	}
}

func TestContainersFilesAreNotTheHosts(t *testing.T) {
	p, root := host(t, "1")
	files := openFiles(p)
	defer func() { _ = files.close() }()
	if _, err := fs.Stat(files, "boot/config"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the root of a container's first process (%s): %v, want that nobody can tell", root, err)
	}
}

func TestReportFitsTheDefinition(t *testing.T) {
	p, _ := host(t, "4711")
	got := Look(&model.Machine{}, nil, p)
	if got.Profile.Kernel == "" || strings.Contains(got.Profile.Kernel, "\x1b") {
		t.Errorf("kernel %q, want it without what a terminal acts on", got.Profile.Kernel)
	}
	long := strings.Repeat("ä\x1b", 2000)
	f := bounded(hosts.Report{Findings: []hosts.Finding{{Subject: long, Found: long, Source: long, Want: long, Fix: long}}}).Findings[0]
	for name, field := range map[string]struct {
		text string
		most int
	}{"subject": {f.Subject, 256}, "found": {f.Found, 1024}, "source": {f.Source, 1024}, "want": {f.Want, 1024}, "fix": {f.Fix, 1024}} {
		if n := utf8.RuneCountInString(field.text); n == 0 || n > field.most || strings.Contains(field.text, "\x1b") || !utf8.ValidString(field.text) {
			t.Errorf("%s: %d characters, want 1 to %d that can be shown", name, n, field.most)
		}
	}
}
