// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hoststate

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/driver/netdev/nslink"
	"plumbline.dev/plumbline/internal/host/ethtool"
	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/netns"
)

// A private flag that a claim, or a pod, has set is restored with the device, and verify
// reports it as long as it is not.
func TestPrivateFlagsComeBack(t *testing.T) {
	name := hosttest.SerialCAN(t)
	self, err := nslink.Open(netns.Self)
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	tool, err := ethtool.Dial(self.Fd())
	if err != nil {
		t.Fatal(err)
	}
	defer tool.Close()
	h := &Host{NetNSConn: self, Ethtool: tool}
	link, err := self.LinkByName(name)
	if err != nil || link == nil {
		t.Fatal(link, err)
	}
	read := func() *State {
		t.Helper()
		s := seenOf(link)
		if err := h.readDevice(s); err != nil {
			t.Fatal(err)
		}
		return &s.State
	}
	before := read()
	if len(before.PrivateFlags) == 0 {
		t.Fatalf("%s has no private flag", name)
	}
	flipped := map[string]bool{}
	for flag, on := range before.PrivateFlags {
		flipped[flag] = !on
	}
	if err := tool.SetPrivateFlags(name, flipped); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(flipped, read().PrivateFlags); diff != "" {
		t.Errorf("set and read back (-want +got):\n%s", diff)
	}
	if len(flagsDiffer(&comparison{want: before, have: read()})) == 0 {
		t.Error("nobody misses the flags that the host had")
	}
	for range 2 {
		if err := h.restoreDevice(link.Index, before); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, read()); diff != "" {
			t.Errorf("restored (-want +got):\n%s", diff)
		}
	}
}
