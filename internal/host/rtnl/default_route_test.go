// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

func dial(t *testing.T, ns *hosttest.Namespace) *rtnl.Conn {
	t.Helper()
	conn, err := rtnl.Dial(ns.Fd())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func byName(t *testing.T, conn *rtnl.Conn) map[string]rtnl.Link {
	t.Helper()
	links, err := conn.Links()
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]rtnl.Link{}
	for _, l := range links {
		m[l.Name] = l
	}
	return m
}

func TestNeeded(t *testing.T) {
	ns := hosttest.NewNamespace(t)
	ns.Run(t, `
		ip link set lo up
		ip link add up0 type veth peer name up0p
		ip link add up1 type veth peer name up1p
		ip link add six0 type veth peer name six0p
		ip link add node0 type veth peer name node0p
		ip link add api0 type veth peer name api0p
		ip link add free0 type veth peer name free0p
		ip link set up0 up
		ip link set up1 up
		ip link set six0 up
		ip link set six0p up
		ip link set node0 up
		ip link set api0 up
		ip link set free0 up
		ip address add 192.0.2.2/24 dev up0
		ip address add 198.51.100.2/24 dev up1
		ip address add 2001:db8::2/64 dev six0 nodad
		ip address add 10.0.0.5/24 dev node0
		ip address add 10.0.7.5/24 dev free0
		ip route add 10.9.0.0/16 dev api0
		ip route add 10.10.0.0/16 dev free0
		ip route add default dev free0 table 99
		ip route add blackhole default metric 4000
		ip -6 route add default via 2001:db8::1 dev six0
		ip route add default nexthop via 192.0.2.1 nexthop via 198.51.100.1`)
	conn := dial(t, ns)
	prefixes, err := conn.Prefixes()
	if err != nil {
		t.Fatal(err)
	}
	needed, err := conn.Uplinks([]netip.Addr{
		netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("::ffff:10.9.0.1"), netip.MustParseAddr("fd00::1"),
	}, prefixes)
	if err != nil {
		t.Fatal(err)
	}
	addresses, err := conn.Addresses()
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range addresses {
		if i >= len(prefixes) || prefixes[i] != (rtnl.Prefix{Prefix: a.Prefix, Index: a.Index, Global: a.Global}) {
			t.Errorf("address %d: Addresses say %v, Prefixes %v", i, a.Prefix, prefixes)
		}
	}
	got := map[string]string{}
	for name, l := range byName(t, conn) {
		if why, ok := needed[l.Index]; ok {
			got[name] = why
		}
	}
	want := map[string]string{
		"up0":   "carries the default route",
		"up1":   "carries the default route",
		"six0":  "carries the default route",
		"node0": "owns the node's address 10.0.0.5",
		"api0":  "leads to ::ffff:10.9.0.1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("needed (-want +got):\n%s", diff)
	}
}

func TestLinks(t *testing.T) {
	ns := hosttest.NewNamespace(t)
	ns.Run(t, `
		ip link add nic0 address 02:00:00:00:00:01 mtu 9000 type veth peer name nic0p
		ip link add br0 type bridge
		ip link set nic0p master br0 up
		ip link set nic0 up alias fabric
		ip link add mv0 link nic0 type macvlan`)
	links := byName(t, dial(t, ns))
	nic := links["nic0"]
	text := func(s string) *string { return &s }
	want := rtnl.Link{
		Name: "nic0", Index: nic.Index, MAC: text("02:00:00:00:00:01"), MTU: nic.Settings.MTU, Alias: text("fabric"),
		Settings: nic.Settings, Up: true, State: nic.State, Encapsulation: "ether", Kind: text("veth"),
		ConfDigest: nic.ConfDigest,
	}
	if diff := cmp.Diff(want, nic); diff != "" || *nic.MTU != 9000 {
		t.Errorf("nic0 (-want +got):\n%s", diff)
	}
	if m := links["nic0p"].Master; m == nil || *m != links["br0"].Index {
		t.Errorf("the bridge's port says its master is %v", m)
	}
	if l := links["mv0"].Lower; !slices.Equal(l, []int{nic.Index}) || links["mv0"].Up {
		t.Errorf("mv0 = %+v", links["mv0"])
	}
	if lo := links["lo"]; lo.Kind != nil || lo.Encapsulation != "loopback" {
		t.Errorf("lo = %+v", lo)
	}
}
