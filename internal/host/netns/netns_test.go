// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/netns"
)

func TestIdentity(t *testing.T) {
	a, b := hosttest.NewNamespace(t), hosttest.NewNamespace(t)
	ids := map[netns.ID]bool{}
	for _, path := range []string{a.Path(), a.Path(), b.Path(), netns.Self} {
		ns, err := netns.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		ids[ns.ID()] = true
		if err := ns.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(ids) != 3 {
		t.Errorf("three namespaces have %d identities: %v", len(ids), ids)
	}
}

func TestOpenWhatIsNone(t *testing.T) {
	dir := t.TempDir()
	empty, fifo := filepath.Join(dir, "empty"), filepath.Join(dir, "fifo")
	if err := errors.Join(os.WriteFile(empty, nil, 0o600), unix.Mkfifo(fifo, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "none"), empty, fifo, dir, ""} {
		if _, err := netns.Open(path); !errors.Is(err, netns.ErrGone) {
			t.Errorf("Open(%q) = %v, want ErrGone", path, err)
		}
	}
	if _, err := netns.Open("/proc/self/ns/mnt"); err == nil || errors.Is(err, netns.ErrGone) {
		t.Errorf("Open of a mount namespace = %v, want an error of its own", err)
	}
}

func TestOfProcess(t *testing.T) {
	a, b := hosttest.NewNamespace(t), hosttest.NewNamespace(t)
	proc, dir := t.TempDir(), t.TempDir()
	for link, target := range map[string]string{
		filepath.Join(proc, "1/ns/net"): netns.Self, filepath.Join(proc, "2/ns/net"): a.Path(), filepath.Join(proc, "3/ns/net"): b.Path(),
		filepath.Join(dir, "cni-a"): a.Path(), filepath.Join(dir, "host"): netns.Self, filepath.Join(dir, "gone"): "/proc/0/ns/net",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o755), os.Symlink(target, link)); err != nil {
			t.Fatal(err)
		}
	}
	for pid, want := range map[uint32]string{1: "", 2: filepath.Join(dir, "cni-a"), 3: "", 4: ""} {
		if got := netns.OfProcess(proc, pid, dir); got != want {
			t.Errorf("process %d: %q, want %q", pid, got, want)
		}
	}
	if got := netns.OfProcess(proc, 2, filepath.Join(dir, "none")); got != "" {
		t.Errorf("without a folder of names: %q", got)
	}
}
