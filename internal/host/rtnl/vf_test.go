// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// vfMessage is a link with a list of virtual functions, each as its attributes in
// hexadecimal, laid out as rtnl_fill_vfinfo does it on a little-endian machine.
func vfMessage(t testing.TB, vfs ...string) []byte {
	t.Helper()
	list := nl.NewRtAttr(unix.IFLA_VFINFO_LIST|unix.NLA_F_NESTED, nil)
	for _, text := range vfs {
		b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
		if err != nil {
			t.Fatal(err)
		}
		list.AddRtAttr(nl.IFLA_VF_INFO|unix.NLA_F_NESTED, b)
	}
	return append(nl.NewIfInfomsg(unix.AF_UNSPEC).Serialize(), list.Serialize()...)
}

// vfZero is function 0 of a driver that tells everything, function 7 of one that leaves
// out what it can, as the kernel does: -1 for the flags.
const (
	vfZero = `2800 0100 00000000 020000000011 0000 000000000000000000000000000000000000000000000000
		2400 0d00 0000000000000000000000000000000000000000000000000000000000000000
		1000 0200 00000000 64000000 03000000
		1000 0600 00000000 e8030000 10270000
		0c00 0300 00000000 10270000
		0c00 0400 00000000 01000000
		0c00 0500 00000000 00000000
		0c00 0900 00000000 00000000
		1800 0c80 1400 0100 00000000 64000000 03000000 88a8 0000`
	vfSeven = `2800 0100 07000000 000000000000 0000 000000000000000000000000000000000000000000000000
		1000 0200 07000000 00000000 00000000
		0c00 0400 07000000 ffffffff
		0c00 0900 07000000 ffffffff`
)

func TestParseVFs(t *testing.T) {
	got, err := parseVFs(vfMessage(t, vfZero, vfSeven, ""))
	want := []VF{
		{Number: 0, VFSettings: VFSettings{
			MAC: ptrTo("02:00:00:00:00:11"), VLAN: &VFVLAN{ID: 100, QoS: 3, Protocol: unix.ETH_P_8021AD},
			Rate: &VFRate{Min: 1000, Max: 10000}, SpoofCheck: ptrTo(true), Trust: ptrTo(false),
		}},
		{Number: 7, VFSettings: VFSettings{MAC: ptrTo(NoMAC), VLAN: &VFVLAN{Protocol: unix.ETH_P_8021Q}}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
}

// What is set is read back as it was set, and only what differs is set.
func TestVFSettings(t *testing.T) {
	all := VFSettings{
		MAC: ptrTo("02:00:00:00:00:11"), VLAN: &VFVLAN{ID: 4094, QoS: 7, Protocol: unix.ETH_P_8021Q},
		Rate: &VFRate{Min: 1, Max: 2}, SpoofCheck: ptrTo(false), Trust: ptrTo(true),
	}
	for _, s := range []VFSettings{all, {MAC: all.MAC, Trust: ptrTo(false)}, {MAC: all.MAC, Rate: &VFRate{Max: 5}}} {
		attribute, err := s.attributes(9)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseVFs(append(nl.NewIfInfomsg(unix.AF_UNSPEC).Serialize(), attribute.Serialize()...))
		if diff := cmp.Diff([]VF{{Number: 9, VFSettings: s}}, got); diff != "" || err != nil {
			t.Errorf("error %v (-want +got):\n%s", err, diff)
		}
	}
	other := all
	other.Rate, other.Trust = &VFRate{Min: 1, Max: 3}, nil
	if diff := cmp.Diff(VFSettings{Rate: all.Rate, Trust: all.Trust}, all.Beyond(other)); diff != "" {
		t.Errorf("beyond others (-want +got):\n%s", diff)
	}
	if s := all.Beyond(all); !s.None() {
		t.Errorf("beyond itself it has %s", s)
	}
	const text = "mac 02:00:00:00:00:11 vlan 4094 qos 7 proto 0x8100 min_tx_rate 1 max_tx_rate 2 spoofchk false trust true"
	if got := all.String(); got != text {
		t.Errorf("%q, want %q", got, text)
	}
	for _, address := range []string{"", "02:00", "00:00:00:00:00:00:00:01"} {
		if _, err := (VFSettings{MAC: &address}).attributes(0); err == nil {
			t.Errorf("%q was taken for an Ethernet address", address)
		}
	}
}

// Whatever a message says, reading ends, and no function has a number below 0.
func FuzzVFs(f *testing.F) {
	f.Add(vfMessage(f, vfZero, vfSeven))
	f.Add(vfMessage(f, "0c00 0400 07000000"))
	f.Fuzz(func(t *testing.T, body []byte) {
		vfs, _ := parseVFs(body)
		for _, vf := range vfs {
			if vf.Number < 0 {
				t.Errorf("function %d", vf.Number)
			}
			if _, err := vf.attributes(uint32(vf.Number)); err != nil {
				t.Error(err)
			}
		}
	})
}
