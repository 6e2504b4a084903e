// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/netns"
)

func pair(t *testing.T) *Conn {
	t.Helper()
	ns := hosttest.NewNamespace(t)
	hosttest.Veth(t, ns, "nic0", ns, "nic1")
	ns.Run(t, "ip link set nic0 up\nip link set nic1 up")
	conn, err := Dial(ns.Fd())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func state(t *testing.T, conn *Conn) map[string]Feature {
	t.Helper()
	list, err := conn.Features("nic0")
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]Feature{}
	for _, f := range list {
		m[f.Name] = f
	}
	return m
}

func TestFeatures(t *testing.T) {
	conn := pair(t)
	have, err := conn.Features("nic0")
	if err != nil {
		t.Fatal(err)
	}
	before := Snapshot(have)
	want, err := Expand(map[string]bool{"tso": false, "rx-gro": true, "gso": false}, have)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := conn.SetFeatures("nic0", want); err != nil {
			t.Fatal(err)
		}
	}
	now := state(t, conn)
	for name, on := range map[string]bool{
		"tx-tcp-segmentation": false, "tx-tcp6-segmentation": false, "tx-generic-segmentation": false, "rx-gro": true,
		"tx-scatter-gather": true,
	} {
		if f := now[name]; f.Active != on || f.Fixed {
			t.Errorf("%+v, want active %t", f, on)
		}
	}
	if err := conn.RestoreFeatures("nic0", before); err != nil {
		t.Fatal(err)
	}
	after, err := conn.Features("nic0")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(have, after); diff != "" {
		t.Errorf("restored (-before +after):\n%s", diff)
	}
}

// Features are as the library reads them, which asks for the names each time.
func TestFeaturesAsTheLibrary(t *testing.T) {
	conn := pair(t)
	for _, ifname := range []string{"nic0", "nic1", "lo"} {
		want, err := conn.handle.FeaturesWithState(ifname)
		if err != nil {
			t.Fatal(err)
		}
		have, err := conn.Features(ifname)
		if err != nil {
			t.Fatal(err)
		}
		if len(have) != len(want) || len(have) == 0 {
			t.Errorf("%s: %d features, the library has %d", ifname, len(have), len(want))
		}
		for _, f := range have {
			w := want[f.Name]
			if f.Active != w.Active || f.Requested != w.Requested || f.Fixed != (!w.Available || w.NeverChanged) {
				t.Errorf("%s: %+v, the library has %+v", ifname, f, w)
			}
		}
	}
	if _, err := conn.Features("gone"); !errors.Is(err, unix.ENODEV) {
		t.Errorf("error %v, want %v", err, unix.ENODEV)
	}
}

// Segmentation waits for scatter and gather: asked for, not in force.
func TestNotTaken(t *testing.T) {
	conn := pair(t)
	if err := conn.SetFeatures("nic0", map[string]bool{"tx-scatter-gather": false, "tx-generic-segmentation": false}); err != nil {
		t.Fatal(err)
	}
	err := conn.SetFeatures("nic0", map[string]bool{"tx-generic-segmentation": true})
	var notTaken *NotAppliedError
	if !errors.As(err, &notTaken) || !cmp.Equal(notTaken.Names, []string{"tx-generic-segmentation"}) {
		t.Errorf("segmentation without gather: %v", err)
	}
	if f := state(t, conn)["tx-generic-segmentation"]; f.Active || !f.Requested {
		t.Errorf("%+v, want it requested only", f)
	}
	if err := conn.RestoreFeatures("nic0", map[string]bool{"tx-generic-segmentation": true}); err != nil {
		t.Errorf("restoring a request: %v", err)
	}
}

func TestExpand(t *testing.T) {
	have := []Feature{
		{Name: "rx-checksum", Active: true, Fixed: true},
		{Name: "rx-lro", Fixed: true},
		{Name: "tx-checksum-fcoe-crc", Fixed: true},
		{Name: "tx-checksum-ipv4", Active: true, Requested: true},
		{Name: "tx-scatter-gather", Active: true, Requested: true},
		{Name: "tx-tcp-ecn-segmentation"},
		{Name: "tx-tcp-segmentation", Active: true, Requested: true},
		{Name: "tx-tcp6-segmentation", Active: true, Requested: true},
		{Name: "tx-udp-segmentation"},
	}
	type settings = map[string]bool
	tests := []struct {
		name      string
		want, set settings
		err       string
	}{
		{"nothing", nil, settings{}, ""},
		{"a group", settings{"tso": false},
			settings{"tx-tcp-ecn-segmentation": false, "tx-tcp-segmentation": false, "tx-tcp6-segmentation": false}, ""},
		{"its long name", settings{"tx-checksumming": false}, settings{"tx-checksum-ipv4": false}, ""},
		{"one of a group", settings{"tso": false, "tx-tcp6-segmentation": true},
			settings{"tx-tcp-ecn-segmentation": false, "tx-tcp-segmentation": false, "tx-tcp6-segmentation": true}, ""},
		{"the kernel's name", settings{"tx-udp-segmentation": true}, settings{"tx-udp-segmentation": true}, ""},
		{"fixed and so already", settings{"rx": true, "lro": false, "rx-lro": false}, settings{}, ""},
		{"fixed", settings{"lro": true, "rx-checksum": false}, nil, `does not let feature "lro", "rx-checksum" be changed`},
		{"unknown", settings{"gro": true, "TSO": true}, nil, `no feature "gro", "TSO": it has rx-checksum, `},
		{"two names", settings{"tso": true, "tcp-segmentation-offload": false}, nil, "ask for opposites"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			set, err := Expand(test.want, have)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v, want %q", err, test.err)
				}
				return
			}
			if diff := cmp.Diff(test.set, set); diff != "" || err != nil {
				t.Errorf("%v, (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestPrivateFlags(t *testing.T) {
	conn := pair(t)
	flags, err := conn.PrivateFlags("nic0")
	if err != nil || len(flags) != 0 {
		t.Errorf("a veth has private flags %v, %v", flags, err)
	}
	var unknown *UnknownError
	if err := conn.SetPrivateFlags("nic0", map[string]bool{"legacy-rx": true}); !errors.As(err, &unknown) {
		t.Errorf("setting one it lacks: %v", err)
	}
	change, err := flagChange(map[string]bool{"a": true, "b": false}, map[string]bool{"a": true, "b": true})
	if diff := cmp.Diff(map[string]bool{"b": true}, change); diff != "" || err != nil {
		t.Errorf("%v, (-want +got):\n%s", err, diff)
	}
}

func TestLink(t *testing.T) {
	conn := pair(t)
	if mbits, ok, err := conn.LinkSpeed("nic0"); mbits != 10000 || !ok || err != nil {
		t.Errorf("speed %d, %t, %v: the kernel gives a veth 10000", mbits, ok, err)
	}
	for _, name := range []string{"nic7", "", "nic0-and-a-name-that-is-too-long"} {
		if _, err := conn.Features(name); !errors.Is(err, unix.ENODEV) {
			t.Errorf("features of %q: %v, want ENODEV", name, err)
		}
		if _, _, err := conn.LinkSpeed(name); !errors.Is(err, unix.ENODEV) {
			t.Errorf("speed of %q: %v, want ENODEV", name, err)
		}
	}
	if counts := conn.Counts(); counts.Sockets != 2 || counts.Messages != 3 {
		t.Errorf("counts %+v, want 2 sockets and 3 requests", counts)
	}
}

func FuzzExpand(f *testing.F) {
	f.Add("tso", "tx-tcp-segmentation", true, false)
	f.Fuzz(func(t *testing.T, a, b string, on, fixed bool) {
		have := []Feature{{Name: b, Fixed: fixed}, {Name: "rx-gro"}}
		set, err := Expand(map[string]bool{a: on, b: !on}, have)
		if err != nil {
			return
		}
		for name := range set {
			if name != b && name != "rx-gro" || name == b && fixed && b != "rx-gro" {
				t.Errorf("%q cannot be set", name)
			}
		}
	})
}

// A private flag of a real driver is set, read back and restored, and stays as it
// was beside one that is refused.
func TestPrivateFlagOfADriver(t *testing.T) {
	name := hosttest.SerialCAN(t)
	self, err := os.Open(netns.Self)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = self.Close() }()
	conn, err := Dial(int(self.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const flag = "err-rst-on-open"
	expect := func(want bool) {
		t.Helper()
		have, err := conn.PrivateFlags(name)
		if diff := cmp.Diff(map[string]bool{flag: want}, have); err != nil || diff != "" {
			t.Errorf("%v; private flags (-want +got):\n%s", err, diff)
		}
	}
	expect(false)
	for _, on := range []bool{true, true, false} {
		if err := conn.SetPrivateFlags(name, map[string]bool{flag: on}); err != nil {
			t.Fatal(err)
		}
		expect(on)
	}
	var unknown *UnknownError
	err = conn.SetPrivateFlags(name, map[string]bool{flag: true, "legacy-rx": true})
	if !errors.As(err, &unknown) || !slices.Equal(unknown.Known, []string{flag}) {
		t.Errorf("error %v, want that legacy-rx is unknown, and %s known", err, flag)
	}
	expect(false)
}
