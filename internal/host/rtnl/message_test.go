// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"plumbline.dev/plumbline/internal/host/hosttest"
)

// texts lists what is saved of one link, as people read it.
func texts(t *testing.T, conn *Conn, index int) []string {
	t.Helper()
	var list []string
	addresses, err := conn.Addresses()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if a.Index == index && !a.Kernel {
			list = append(list, a.Text)
		}
	}
	routes, err := conn.Routes(index)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range routes {
		if r.Through(index) && !r.Kernel {
			list = append(list, r.Text)
		}
	}
	neighbours, err := conn.Neighbours(index)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range neighbours {
		list = append(list, n.Text)
	}
	return list
}

func TestTexts(t *testing.T) {
	ns := hosttest.NewNamespace(t)
	ns.Run(t, `
		ip link add nic0 type veth peer name nic1
		ip link set nic0 up
		ip link set nic1 up
		ip address add 10.0.0.1/24 brd + dev nic0 label nic0:x metric 9
		ip address add 10.1.0.1 peer 10.1.0.2 dev nic0
		ip address add fd00::1/64 dev nic0 nodad noprefixroute
		ip route add 10.2.0.0/16 via 10.0.0.9 dev nic0 metric 5 table 77
		ip route add 10.3.0.0/16 nexthop via 10.0.0.9 dev nic0 nexthop dev nic1
		ip route add 10.4.0.0/16 dev nic0 src 10.0.0.1
		ip neighbour add 10.0.0.7 lladdr 02:00:00:00:00:07 nud permanent dev nic0`)
	conn, err := Dial(ns.Fd())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	links, err := conn.Links()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(links, func(l Link) bool { return l.Name == "nic0" })
	got := texts(t, conn, links[i].Index)
	slices.Sort(got)
	want := []string{
		"10.0.0.1/24 brd 10.0.0.255 metric 9 nic0:x",
		"10.0.0.7 lladdr 02:00:00:00:00:07",
		"10.1.0.1/32 peer 10.1.0.2",
		"10.2.0.0/16 via 10.0.0.9 table 77 proto 3 metric 5",
		"10.3.0.0/16 by 2 paths table 254 proto 3",
		"10.4.0.0/16 src 10.0.0.1 table 254 proto 3",
		"fd00::1/64 noprefixroute",
	}
	if !slices.Equal(got, want) {
		t.Errorf("saved\n%q, want\n%q", got, want)
	}
}

func TestBroadcast(t *testing.T) {
	for prefix, want := range map[string]string{
		"10.0.0.2/24": "10.0.0.255", "10.0.0.2/30": "10.0.0.3", "10.0.0.2/8": "10.255.255.255", "10.0.0.2/0": "255.255.255.255",
	} {
		ip, _ := netip.AddrFromSlice(broadcast(netip.MustParsePrefix(prefix)))
		if ip.String() != want {
			t.Errorf("broadcast of %s = %s, want %s", prefix, ip, want)
		}
	}
}

// What is decoded may come from a damaged journal.
func FuzzMessages(f *testing.F) {
	f.Add([]byte{2, 24, 0, 0, 7, 0, 0, 0, 8, 0, 2, 0, 10, 0, 0, 1}, 7)
	f.Add([]byte{2, 8, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0, 12, 0, 9, 0, 8, 0, 0, 0, 7, 0, 0, 0}, 7)
	f.Add([]byte{2, 0, 0, 0, 7, 0, 0, 0, 128, 0, 0, 1, 8, 0, 1, 0, 10, 0, 0, 7, 10, 0, 2, 0, 2, 0, 0, 0, 0, 7, 0, 0}, 7)
	f.Fuzz(func(t *testing.T, body []byte, index int) {
		if a, _, err := parseAddress(body, time.Time{}); err == nil {
			b, _, err := parseAddress(a.Message, time.Time{})
			if err != nil || !slices.Equal(a.Message, b.Message) {
				t.Errorf("an address does not stay the same: %v\n%x\n%x", err, a.Message, b.Message)
			}
		}
		if n, err := parseNeighbour(body); err == nil {
			b, err := parseNeighbour(n.Message)
			if err != nil || !n.Equal(b.Saved) {
				t.Errorf("a neighbour does not stay the same: %v\n%x\n%x", err, n.Message, b.Message)
			}
		}
		if r, _, err := parseRoute(body, index); err == nil {
			b, _, err := parseRoute(r.Message, index)
			if err != nil || !slices.Equal(r.Message, b.Message) {
				t.Errorf("a route does not stay the same: %v\n%x\n%x", err, r.Message, b.Message)
			}
		}
	})
}
