// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/inventory"
)

func TestNetlink(t *testing.T) {
	ns := hosttest.NewNamespace(t)
	ns.Run(t, `
		ip link add up0 type veth peer name up0p
		ip link add node0 type veth peer name node0p
		ip link add api0 type veth peer name api0p
		ip link add free0 type veth peer name free0p
		ip link add br0 type bridge
		ip link set free0p master br0
		ip link add mv0 link free0 type macvlan
		ip link set up0 up
		ip link set node0 up
		ip link set api0 up
		ip address add 192.0.2.2/24 dev up0
		ip address add 10.0.0.5/24 dev node0
		ip route add 10.9.0.0/16 dev api0
		ip route add default via 192.0.2.1`)
	n, err := inventory.OpenNetlink(ns.Fd(), []netip.Addr{netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("10.9.0.1")})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	list, err := n.Links(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]inventory.LinkFacts{}
	var uplinks strings.Builder
	for _, l := range list {
		byName[l.Name] = l
		if l.Uplink != nil {
			uplinks.WriteString(l.Name + " " + *l.Uplink + "\n")
		}
	}
	want := []string{"up0 carries the default route", "node0 owns the node's address 10.0.0.5", "api0 leads to 10.9.0.1"}
	for _, line := range want {
		if !strings.Contains(uplinks.String(), line+"\n") {
			t.Errorf("want %q among the uplinks:\n%s", line, uplinks.String())
		}
	}
	if m := byName["free0p"].Master; m == nil || *m != byName["br0"].Index {
		t.Errorf("the bridge's port says its master is %v", m)
	}
	if l := byName["mv0"].Lower; !slices.Equal(l, []int{byName["free0"].Index}) {
		t.Errorf("the macvlan says its parent is %v", l)
	}
	if diff := cmp.Diff([]netip.Prefix{netip.MustParsePrefix("192.0.2.2/24")}, byName["up0"].Addresses, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("addresses of up0 (-want +got):\n%s", diff)
	}
}

func TestNetlinkTellsOfChanges(t *testing.T) {
	ns := hosttest.NewNamespace(t)
	n, err := inventory.OpenNetlink(ns.Fd(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	events, err := n.Subscribe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ns.Run(t, "ip link add new0 type veth peer name new1")
	select {
	case _, open := <-events:
		if !open {
			t.Error("the channel was closed, want an event")
		}
	case <-time.After(30 * time.Second):
		t.Error("no event for a new link")
	}
}
