// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/fstest"

	"plumbline.dev/plumbline/internal/host/hosttest"
)

func openTree(t *testing.T, text string) (*Dir, string) {
	t.Helper()
	name := t.TempDir()
	if err := os.CopyFS(name, hosttest.Tree(t, text)); err != nil {
		t.Fatal(err)
	}
	d, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d, name
}

func TestDirIsAFileSystem(t *testing.T) {
	d, _ := openTree(t, `
		class/net/eth0 -> ../../devices/pci0000:00/0000:00:03.0/net/eth0
		devices/pci0000:00/0000:00:03.0/net/eth0/mtu = 1500
	`)
	if err := fstest.TestFS(d, "class/net/eth0", "devices/pci0000:00/0000:00:03.0/net/eth0/mtu"); err != nil {
		t.Error(err)
	}
}

func TestDirReadsAttributes(t *testing.T) {
	d, name := openTree(t, `
		class/net/eth0 -> ../../devices/eth0
		devices/eth0/mtu = 1500
		devices/eth0/out -> ../../../../../../../../../../etc/hostname
		devices/eth0/absolute -> /etc/hostname
		devices/eth0/loop -> loop
	`)
	if err := syscall.Mkfifo(filepath.Join(name, "devices/eth0/fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	var buf [16]byte
	for _, tt := range []struct {
		name, want string
		err        error
	}{
		{name: "devices/eth0/mtu", want: "1500\n"},
		{name: "class/net/eth0/mtu", want: "1500\n"},
		{name: "devices/eth0/out", err: syscall.EXDEV},
		{name: "devices/eth0/absolute", err: syscall.EXDEV},
		{name: "devices/eth0/loop", err: syscall.ELOOP},
		{name: "devices/eth0/none", err: fs.ErrNotExist},
		{name: "devices/eth0", err: syscall.EISDIR},
		{name: "devices/eth0/fifo"}, // without a writer it is empty, and does not block
		{name: "../etc", err: fs.ErrInvalid},
	} {
		n, err := d.ReadAttribute(tt.name, buf[:])
		if string(buf[:n]) != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: got %q, %v, want %q, %v", tt.name, buf[:n], err, tt.want, tt.err)
		}
	}
	if n, err := d.ReadAttribute("devices/eth0/mtu", buf[:2]); n != 2 || err != nil {
		t.Errorf("a buffer that is too short: got %d, %v, want it filled", n, err)
	}
}

func TestDirReadsLinks(t *testing.T) {
	d, _ := openTree(t, `
		class/net/eth0 -> ../../devices/eth0
		devices/eth0/mtu = 1500
		away -> ../../..
	`)
	if target, err := d.ReadLink("class/net/eth0"); target != "../../devices/eth0" || err != nil {
		t.Errorf("class/net/eth0: got %q, %v", target, err)
	}
	for name, want := range map[string]error{
		"devices/eth0/mtu": syscall.EINVAL,
		"devices/none":     fs.ErrNotExist,
		"away/etc/x":       syscall.EXDEV,
	} {
		if target, err := d.ReadLink(name); !errors.Is(err, want) {
			t.Errorf("%s: got %q, %v, want %v", name, target, err, want)
		}
	}
}
