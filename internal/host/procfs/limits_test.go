// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package procfs

import (
	"net/netip"
	"strings"
	"testing"
)

const limits = "Limit                     Soft Limit           Hard Limit           Units     \n" +
	"Max cpu time              unlimited            unlimited            seconds   \n" +
	"Max locked memory         65536                %s            bytes     \n" +
	"Max address space         unlimited            unlimited            bytes     \n"

func TestParseMemlock(t *testing.T) {
	for text, want := range map[string]uint64{"unlimited": Unlimited, "8388608": 8 << 20, "0": 0} {
		if got, err := ParseMemlock([]byte(strings.Replace(limits, "%s", text, 1))); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "Max locked memory\n", strings.Replace(limits, "%s", "-1", 1), strings.Replace(limits, "Max locked memory", "Max lockd memory", 1)} {
		if got, err := ParseMemlock([]byte(text)); err == nil {
			t.Errorf("%q: %d, want an error", text, got)
		}
	}
}

func TestParseLocksMemory(t *testing.T) {
	for text, want := range map[string]bool{
		"Name:\tx\nCapEff:\t000001ffffffffff\nCapBnd:\t0\n": true, "Name:\tx\nCapEff:\t0000000000004000\n": true,
		"Name:\tx\nCapPrm:\t0000000000004000\nCapEff:\t00000000a80425fb\n": false, "Name:\tx\n": false, "Name:\tx\nCapEff:\tx\n": false,
		// A process chooses its own name.
		"Name:\tCapEff:\t0000000000004000\n": false,
	} {
		if got := ParseLocksMemory([]byte(text)); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

func TestParseParent(t *testing.T) {
	if got, err := ParseParent([]byte("Name:\tPPid:\t7\nPPid:\t12\nTracerPid:\t0\n")); err != nil || got != 12 {
		t.Errorf("got %d, %v", got, err)
	}
	for _, text := range []string{"", "Name:\tPPid:\t7\n", "Name:\tx\nPPid:\tx\n", "Name:\tx\nPPid:\t-1\n"} {
		if got, err := ParseParent([]byte(text)); err == nil {
			t.Errorf("%q: %d, want an error", text, got)
		}
	}
}

// fibTrie is that of a namespace with lo and an interface of 10.0.0.5/24.
const fibTrie = `Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     |-- 10.0.0.0
        /24 link UNICAST
Local:
  +-- 0.0.0.0/0 3 0 5
     +-- 10.0.0.0/24 2 0 2
        +-- 10.0.0.0/29 2 0 2
           |-- 10.0.0.0
              /24 link UNICAST
           |-- 10.0.0.5
              /32 host LOCAL
        |-- 10.0.0.255
           /32 link BROADCAST
     |-- 127.0.0.1
        /32 host LOCAL
`

const ifINET6 = "fe800000000000000000000000000001 02 40 20 80     eth1\n" +
	"20010db8000000000000000000000005 02 40 00 80     eth1\nx\nzz 1 2 3 4 5\n"

func TestLocalAddresses(t *testing.T) {
	got := map[netip.Addr]bool{}
	if err := LocalAddresses(strings.NewReader(fibTrie), got); err != nil {
		t.Fatal(err)
	}
	if err := LocalIPv6Addresses(strings.NewReader(ifINET6), got); err != nil {
		t.Fatal(err)
	}
	want := []string{"10.0.0.5", "127.0.0.1", "2001:db8::5"}
	for _, a := range want {
		if !got[netip.MustParseAddr(a)] {
			t.Errorf("%s is not among %v", a, got)
		}
	}
	if got[netip.MustParseAddr("10.0.0.255")] || got[netip.MustParseAddr("10.0.0.0")] {
		t.Errorf("got %v", got)
	}
}
