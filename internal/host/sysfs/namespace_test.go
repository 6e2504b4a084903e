// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysfs_test

import (
	"io/fs"
	"testing"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/sysfs"
)

// A namespace's interfaces are in its own view of /sys alone.
func TestOpenNamespace(t *testing.T) {
	ns := hosttest.NewNamespace(t)
	hosttest.Veth(t, ns, "plumbview0", ns, "plumbview1")
	dir, err := sysfs.OpenNamespace(ns.Fd())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fs.Stat(dir, "class/net/plumbview0/address"); err != nil {
		t.Errorf("inside: %v", err)
	}
	if err := dir.Close(); err != nil {
		t.Error(err)
	}
	other := hosttest.NewNamespace(t)
	dir, err = sysfs.OpenNamespace(other.Fd())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	if _, err := fs.Stat(dir, "class/net/plumbview0"); err == nil {
		t.Error("another namespace shows it, too")
	}
}
