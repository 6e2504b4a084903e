// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sriov

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/model"
)

// pf has three virtual functions, whose numbers are not in the order of their names.
const pf = `
bus/pci/devices/0000:01:00.0/class = 0x020000
bus/pci/devices/0000:01:00.0/sriov_totalvfs = 12
bus/pci/devices/0000:01:00.0/sriov_numvfs = 3
bus/pci/devices/0000:01:00.0/virtfn0 -> ../0000:01:10.0
bus/pci/devices/0000:01:00.0/virtfn10 -> ../0000:01:11.0
bus/pci/devices/0000:01:00.0/virtfn2 -> ../0000:01:10.4
bus/pci/devices/0000:01:10.0/net/eth1v0/mtu = 1500
bus/pci/devices/0000:01:10.0/driver -> ../../../bus/pci/drivers/igbvf
bus/pci/devices/0000:01:10.0/class = 0x020000
bus/pci/devices/0000:01:10.0/physfn -> ../0000:01:00.0
bus/pci/devices/0000:01:10.4/class = 0x020000
bus/pci/devices/0000:01:11.0/class = 0x020000
`

// host is a /sys of files, to which text is added in place of entries of the same name.
func host(t *testing.T, text string) string {
	t.Helper()
	sys := t.TempDir()
	for name, file := range hosttest.Tree(t, text) {
		path := filepath.Join(sys, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		err := error(nil)
		switch {
		case file.Mode&fs.ModeSymlink != 0:
			err = os.Symlink(string(file.Data), path)
		case strings.HasSuffix(name, "/-"): // an empty folder
		default:
			err = os.WriteFile(path, file.Data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return sys
}

func address(t *testing.T, s string) model.PCIAddress {
	t.Helper()
	a, err := model.ParsePCIAddress(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestRead(t *testing.T) {
	const dir = "bus/pci/devices/0000:01:00.0/"
	for name, c := range map[string]struct{ at, tree, refused string }{
		"a physical function":  {"0000:01:00.0", pf, ""},
		"a virtual one":        {"0000:01:10.0", pf, "is a virtual function of 0000:01:00.0"},
		"not there":            {"0000:09:00.0", pf, "no such file"},
		"an NVMe drive":        {"0000:01:00.0", pf + dir + "class = 0x010802", `is no network controller: its class is "0x010802"`},
		"a class too long":     {"0000:01:00.0", pf + dir + "class = 0x02000000", "is no network controller"},
		"one without SR-IOV":   {"0000:01:00.0", dir + "class = 0x020000", "it has no sriov_totalvfs"},
		"a count of the wrong": {"0000:01:00.0", pf + dir + "sriov_numvfs = many", "sriov_numvfs: "},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Read(host(t, c.tree), address(t, c.at))
			if c.refused == "" && (err != nil || got != Counts{Now: 3, Total: 12}) || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
				t.Errorf("%+v, %v; want %q", got, err, c.refused)
			}
		})
	}
}

func TestUsed(t *testing.T) {
	const vf = "bus/pci/devices/0000:01:11.0/"
	driver := func(name string) string { return vf + "driver -> ../../../bus/pci/drivers/" + name + "\n" }
	for name, c := range map[string]struct{ tree, want string }{
		"all are the host's":   {pf, ""},
		"bound to vfio-pci":    {pf + driver("vfio-pci"), "virtual function 0000:01:11.0 is bound to vfio-pci, for programs that drive it themselves"},
		"bound to igb_uio":     {pf + driver("igb_uio"), "virtual function 0000:01:11.0 is bound to igb_uio, for programs that drive it themselves"},
		"its link is a pod's":  {pf + driver("igbvf") + vf + "net/- =", "virtual function 0000:01:11.0 is in another network namespace than the host's"},
		"its RDMA is a pod's":  {pf + driver("mlx5_core") + vf + "net/eth3/mtu = 1500\n" + vf + "infiniband/- =", "virtual function 0000:01:11.0 is in another network namespace than the host's"},
		"with a driver alone":  {pf + driver("igbvf"), ""},
		"without any function": {"bus/pci/devices/0000:01:00.0/class = 0x020000", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := Used(host(t, c.tree), address(t, "0000:01:00.0")); err != nil || got != c.want {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
		})
	}
	if got, err := Used(host(t, pf+"bus/pci/devices/0000:01:00.0/virtfn3 -> ../hostile"), address(t, "0000:01:00.0")); err == nil {
		t.Errorf("%q of a virtual function without an address", got)
	}
	got, err := Virtual(host(t, pf), address(t, "0000:01:00.0"))
	if want := "[0000:01:10.0 0000:01:10.4 0000:01:11.0]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("virtual functions %v, %v; want %s", got, err, want)
	}
}

// TestSetCount has a kernel that changes a count through 0 alone, and may be out of room.
func TestSetCount(t *testing.T) {
	const file = "bus/pci/devices/0000:01:00.0/sriov_numvfs"
	for _, c := range []struct {
		count   int
		most    string // the kernel makes no other number
		writes  []string
		refused string
	}{
		{3, "", nil, ""},
		{0, "", []string{"0"}, ""},
		{5, "", []string{"0", "5"}, ""},
		{13, "", nil, "13 is more than "},
		{5, "ENOMEM", []string{"0", "5"}, "0000:01:00.0 has no virtual functions now"},
		{5, "2", []string{"0", "5"}, "made 2 virtual functions of 5"},
	} {
		sys := host(t, pf)
		var writes []string
		err := setCount(sys, address(t, "0000:01:00.0"), c.count, func(name, value string) error {
			writes = append(writes, value)
			now, err := os.ReadFile(filepath.Join(sys, file))
			switch {
			case err != nil || name != filepath.Join(sys, file):
				return fmt.Errorf("%s: %w", name, fs.ErrInvalid)
			case value != "0" && strings.TrimSpace(string(now)) != "0":
				return syscall.EBUSY
			case value != "0" && c.most == "ENOMEM":
				return syscall.ENOMEM
			case value != "0" && c.most != "":
				value = c.most
			}
			return os.WriteFile(name, []byte(value+"\n"), 0o600)
		})
		if !slices.Equal(writes, c.writes) || (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%d: wrote %q, %v; want %q, %q", c.count, writes, err, c.writes, c.refused)
		}
	}
	sys := host(t, pf)
	if err := SetCount(sys, address(t, "0000:01:00.0"), 7); err != nil {
		t.Fatal(err)
	}
	if c, err := Read(sys, address(t, "0000:01:00.0")); err != nil || c.Now != 7 {
		t.Errorf("%+v, %v", c, err)
	}
}
