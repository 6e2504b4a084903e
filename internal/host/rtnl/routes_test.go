// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Many routes come back in a few messages, those behind a gateway too that only
// the last of them makes reachable, and each that fails is named.
func TestRestoreManyRoutes(t *testing.T) {
	ns, conn, nic := routed(t)
	var setup strings.Builder
	setup.WriteString("ip route add 10.9.0.0/24 dev nic0 proto static\n")
	for i := range 150 {
		fmt.Fprintf(&setup, "ip route add 10.1.%d.0/24 via 10.9.0.9 dev nic0\n", i)
	}
	for i := range 150 {
		fmt.Fprintf(&setup, "ip -6 route add fd01:%x::/64 via fd00::9 dev nic0\n", i)
	}
	ns.Run(t, setup.String())
	before, saved := ownRoutes(t, conn, nic), ownRoutes(t, conn, nic)
	ns.Run(t, "ip route flush dev nic0 proto boot\nip -6 route flush dev nic0 proto boot\nip route flush dev nic0 proto static")
	if left := ownRoutes(t, conn, nic); len(left) != 0 {
		t.Fatalf("after deletion there is %v", left)
	}
	slices.Reverse(saved)
	saved = append(saved, Saved{Text: "damaged", Message: []byte{1}})

	sent, changes := conn.Counts().Messages, 0
	conn.OnChange(func() { changes++ })
	err := conn.RestoreRoutes(nic, saved)
	if want := fmt.Sprintf("restore route damaged on link %d: a message of 1 bytes", nic); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
	if after := ownRoutes(t, conn, nic); !slices.EqualFunc(before, after, Saved.Equal) {
		t.Errorf("restored %d routes, want %d as they were", len(after), len(before))
	}
	if sent = conn.Counts().Messages - sent; sent > 12 {
		t.Errorf("%d messages for 301 routes", sent)
	}
	if changes == 0 || changes > 12 {
		t.Errorf("%d changes were told", changes)
	}

	lost := saved[len(saved)-2]
	ns.Run(t, "ip route flush dev nic0 proto boot\nip link set nic0 down")
	err = conn.RestoreRoutes(nic, []Saved{lost})
	if !errors.Is(err, unix.ENETDOWN) && !errors.Is(err, unix.ENETUNREACH) || !strings.Contains(err.Error(), "restore route "+lost.Text) {
		t.Errorf("a route through a link that is down: %v", err)
	}
}

// What was left of a route when its links went away does not count beside the
// whole, and neither does what was left earlier of what was left.
func TestWholeRoutes(t *testing.T) {
	ns, conn, nic := routed(t)
	ns.Run(t, `
		ip -6 route add fd09::/64 nexthop via fd00::9 dev nic0 nexthop via fe80::2 dev nic1 nexthop via fe80::3 dev nic1
		ip -6 route add fd08::/64 via fd00::9 dev nic0
		ip route add 10.9.0.0/16 via 10.0.0.9 dev nic0`)
	whole := ownRoutes(t, conn, nic)
	ns.Run(t, "ip -6 route del fd09::/64 via fe80::3 dev nic1")
	part := ownRoutes(t, conn, nic)
	ns.Run(t, "ip -6 route del fd09::/64 via fe80::2 dev nic1")
	rest := ownRoutes(t, conn, nic)
	list := append(slices.Concat(part, whole, rest), Saved{Text: "damaged"})
	got := slices.CompactFunc(sorted(WholeRoutes(list)), func(a, b Saved) bool { return a.Equal(b) })
	want := sorted(append(whole, Saved{Text: "damaged"}))
	if !slices.EqualFunc(got, want, Saved.Equal) {
		t.Errorf("left of them\n%v, want\n%v", got, want)
	}
}

func sorted(list []Saved) []Saved {
	return slices.SortedFunc(slices.Values(list), func(a, b Saved) int { return strings.Compare(string(a.Message), string(b.Message)) })
}
