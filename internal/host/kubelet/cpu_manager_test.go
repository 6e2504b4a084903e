// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadCPUManager(t *testing.T) {
	for _, test := range []struct{ name, text, want, why string }{
		{"none", `{"policyName":"none","defaultCpuSet":"","checksum":1353318690}`, "none", ""},
		{"static", `{"policyName":"static","defaultCpuSet":"0-1,4-7","entries":{"a":{"b":"2-3"}},"checksum":1}`, "static", ""},
		{"cut off", `{"policyName":"sta`, "", "unexpected end"},
		{"empty", `{}`, "", "want none or static"},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			if err := os.WriteFile(filepath.Join(root, CPUManagerFile), []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			m, err := ReadCPUManager(root)
			if m.Policy != test.want || (err == nil) != (test.why == "") || err != nil && !strings.Contains(err.Error(), test.why) {
				t.Errorf("got %+v, %v", m, err)
			}
		})
	}
	if _, err := ReadCPUManager(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, CPUManagerFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadCPUManager(root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory: %v", err)
	}
}

// The kubelet replaces the file; a mount of the old one goes on to show it.
func TestReplacedCheckpoint(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, CPUManagerFile)
	if err := os.WriteFile(path, []byte(`{"policyName":"none"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	old, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Close() }()
	next := filepath.Join(root, "next")
	if err := os.WriteFile(next, []byte(`{"policyName":"static"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
	mounted := t.TempDir()
	if err := os.Symlink(fmt.Sprintf("/proc/self/fd/%d", old.Fd()), filepath.Join(mounted, CPUManagerFile)); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]CPUManager{root: {Policy: PolicyStatic}, mounted: {Policy: "none", Stale: true}} {
		if got, err := ReadCPUManager(dir); err != nil || got != want {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	}
}

func FuzzCPUManager(f *testing.F) {
	f.Add(`{"policyName":"none","defaultCpuSet":"","checksum":1353318690}`)
	f.Fuzz(func(t *testing.T, text string) {
		if m, err := decodeCPUManager(strings.NewReader(text)); err == nil && m.Policy == "" {
			t.Errorf("%q has no policy", text)
		}
	})
}
