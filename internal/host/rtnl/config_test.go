// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/hosttest"
)

// routed is a namespace with nic0 (10.0.0.1/24, fd00::1/64) up.
func routed(t *testing.T) (*hosttest.Namespace, *Conn, int) {
	t.Helper()
	ns := hosttest.NewNamespace(t)
	ns.Run(t, `
		ip link add nic0 type veth peer name nic1
		ip link set nic0 up
		ip link set nic1 up
		ip address add 10.0.0.1/24 dev nic0
		ip address add fd00::1/64 dev nic0 nodad`)
	conn := dialIn(t, ns)
	return ns, conn, indexOf(t, conn, "nic0")
}

func lines(text string) []string {
	var list []string
	for line := range strings.Lines(text) {
		list = append(list, strings.Join(strings.Fields(line), " "))
	}
	return list
}

func TestAddRoute(t *testing.T) {
	via4, via6 := netip.MustParseAddr("10.0.0.9"), netip.MustParseAddr("fd00::9")
	tests := []struct {
		route RouteConfig
		want  string
	}{
		{RouteConfig{Destination: netip.MustParsePrefix("10.1.0.0/16"), Gateway: via4}, "10.1.0.0/16 via 10.0.0.9 dev nic0"},
		{
			RouteConfig{Destination: netip.MustParsePrefix("10.2.0.0/16"), Gateway: via4, Table: 4711, Metric: 7, MTU: 1400},
			"10.2.0.0/16 via 10.0.0.9 dev nic0 table 4711 metric 7 mtu 1400",
		},
		{
			RouteConfig{Destination: netip.MustParsePrefix("10.3.0.0/16"), Gateway: netip.MustParseAddr("192.0.2.1"), OnLink: true},
			"10.3.0.0/16 via 192.0.2.1 dev nic0 onlink",
		},
		{
			RouteConfig{Destination: netip.MustParsePrefix("10.4.0.0/16"), Scope: unix.RT_SCOPE_LINK, Source: netip.MustParseAddr("10.0.0.1")},
			"10.4.0.0/16 dev nic0 scope link src 10.0.0.1",
		},
		{RouteConfig{Destination: netip.MustParsePrefix("0.0.0.0/0"), Gateway: via4}, "default via 10.0.0.9 dev nic0"},
		{
			RouteConfig{Destination: netip.MustParsePrefix("fd01::/64"), Gateway: via6, Metric: 9, MTU: 1300},
			"fd01::/64 via fd00::9 dev nic0 metric 9 mtu 1300 pref medium",
		},
		{
			RouteConfig{Destination: netip.MustParsePrefix("fd02::/64"), Table: 4711},
			"fd02::/64 dev nic0 table 4711 metric 1024 pref medium",
		},
	}
	for _, test := range tests {
		t.Run(test.route.String(), func(t *testing.T) {
			ns, conn, nic := routed(t)
			show := func() string {
				return ns.Run(t, "ip -4 route show table all proto static\nip -6 route show table all proto static")
			}
			for range 2 { // also when it is there
				if err := conn.AddRoute(nic, test.route); err != nil {
					t.Fatal(err)
				}
			}
			if got := lines(show()); !slices.Equal(got, []string{test.want}) {
				t.Errorf("routes %q, want %q", got, test.want)
			}
			other := test.route
			other.MTU = 1299
			if err := conn.AddRoute(nic, other); !errors.Is(err, unix.EEXIST) || !strings.Contains(err.Error(), test.route.Destination.String()) {
				t.Errorf("a route in another's place: %v", err)
			}
			saved := ownRoutes(t, conn, nic)
			if len(saved) != 1 {
				t.Fatalf("saved %q, want one", saved)
			}
			ns.Run(t, "ip -4 route flush table all proto static\nip -6 route flush table all proto static")
			if got := show(); got != "" {
				t.Errorf("after deletion there is %s", got)
			}
			if err := conn.RestoreRoutes(nic, saved); err != nil {
				t.Fatal(err)
			}
			if got := lines(show()); !slices.Equal(got, []string{test.want}) {
				t.Errorf("restored %q, want %q", got, test.want)
			}
		})
	}
}

func ownRoutes(t *testing.T, conn *Conn, nic int) []Saved {
	t.Helper()
	routes, err := conn.Routes(nic)
	if err != nil {
		t.Fatal(err)
	}
	var list []Saved
	for _, r := range routes {
		if r.Through(nic) && !r.Kernel {
			list = append(list, r.Saved)
		}
	}
	return list
}

func TestInTable(t *testing.T) {
	ns, conn, nic := routed(t)
	ns.Run(t, "ip route add 10.1.0.0/16 via 10.0.0.9 dev nic0 metric 5")
	moved, err := InTable(ownRoutes(t, conn, nic)[0], 4711)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.RestoreRoutes(nic, []Saved{moved}); err != nil {
		t.Fatal(err)
	}
	want := []string{"10.1.0.0/16 via 10.0.0.9 dev nic0 metric 5"}
	if got := lines(ns.Run(t, "ip route show table 4711")); !slices.Equal(got, want) {
		t.Errorf("table 4711 has %q, want %q", got, want)
	}
	if !strings.Contains(moved.Text, "table 4711") || !slices.ContainsFunc(ownRoutes(t, conn, nic), moved.Equal) {
		t.Errorf("%q is not what the kernel has: %q", moved, ownRoutes(t, conn, nic))
	}
}

func TestOnChange(t *testing.T) {
	_, conn, nic := routed(t)
	changes := 0
	conn.OnChange(func() { changes++ })
	prefix := netip.MustParsePrefix("10.7.0.1/24")
	for range 2 { // the second finds it, and changes nothing
		if err := conn.AddAddress(nic, prefix); err != nil {
			t.Fatal(err)
		}
	}
	if findAddress(t, conn, prefix) == nil || changes != 1 {
		t.Errorf("%d changes, want 1", changes)
	}
}

func TestRules(t *testing.T) {
	ns := hosttest.NewNamespace(t)
	conn := dialIn(t, ns)
	show := func() []string { return lines(ns.Run(t, "ip -4 rule show\nip -6 rule show")) }
	before := show()
	for _, r := range []RuleConfig{
		{Priority: new(uint32(100)), Table: 7, Source: netip.MustParsePrefix("10.0.0.0/8")},
		{Priority: new(uint32(101)), Table: 4711, Source: netip.MustParsePrefix("10.0.0.0/8"), Destination: netip.MustParsePrefix("10.9.0.1/32")},
		{Priority: new(uint32(102)), Table: 8, Destination: netip.MustParsePrefix("fd00::/8")},
		{Priority: new(uint32(103)), Table: 9, Family: unix.AF_INET6},
	} {
		for range 2 {
			if err := conn.AddRule(r); err != nil {
				t.Fatal(err)
			}
		}
	}
	// What only ip makes is kept too.
	ns.Run(t, "ip rule add not from 10.1.0.0/16 iif nic9 fwmark 0x1/0xff lookup 12 suppress_prefixlength 8 priority 99")
	after := show()
	want := []string{
		"99: not from 10.1.0.0/16 fwmark 0x1/0xff iif nic9 [detached] lookup 12 suppress_prefixlength 8",
		"100: from 10.0.0.0/8 lookup 7 proto static",
		"101: from 10.0.0.0/8 to 10.9.0.1 lookup 4711 proto static",
		"102: from all to fd00::/8 lookup 8 proto static",
		"103: from all lookup 9 proto static",
	}
	if got := slices.DeleteFunc(slices.Clone(after), func(l string) bool { return slices.Contains(before, l) }); !slices.Equal(got, want) {
		t.Errorf("rules\n%q, want\n%q", got, want)
	}
	rules, err := conn.Rules()
	if err != nil {
		t.Fatal(err)
	}
	rules = slices.DeleteFunc(rules, func(r Rule) bool { return r.Kernel })
	if len(rules) != len(want) || rules[0].Text != "99: from 10.1.0.0/16 iif nic9 lookup 12" || rules[2].Table != 4711 {
		t.Fatalf("rules %+v", rules)
	}
	for range 2 {
		for _, r := range rules {
			if err := conn.DeleteRule(r.Saved); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := show(); !slices.Equal(got, before) {
		t.Errorf("after deletion\n%q, want\n%q", got, before)
	}
	for range 2 {
		for _, r := range rules {
			if err := conn.RestoreRule(r.Saved); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := show(); !slices.Equal(got, after) {
		t.Errorf("restored\n%q, want\n%q", got, after)
	}
}

func TestNeighbours(t *testing.T) {
	ns, conn, nic := routed(t)
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 7}
	for _, ip := range []string{"10.0.0.7", "fd00::7", "10.0.0.7"} {
		if err := conn.SetNeighbour(nic, netip.MustParseAddr(ip), mac); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"10.0.0.7 dev nic0 lladdr 02:00:00:00:00:07 PERMANENT", "fd00::7 dev nic0 lladdr 02:00:00:00:00:07 PERMANENT"}
	if got := lines(ns.Run(t, "ip -4 neighbour show nud permanent\nip -6 neighbour show nud permanent")); !slices.Equal(got, want) {
		t.Errorf("neighbours %q, want %q", got, want)
	}
	ns.Run(t, "ip neighbour delete 10.0.0.7 dev nic0")
	saved, err := conn.Neighbours(nic)
	if err != nil || len(saved) != 1 || saved[0].Text != "fd00::7 lladdr 02:00:00:00:00:07" {
		t.Errorf("saved %v, %v", saved, err)
	}
}

// What was saved of an address with a lifetime comes back with what is left of
// it, an hour later too.
func TestLifetimes(t *testing.T) {
	for _, address := range []string{"10.5.0.1/24", "fd05::1/64"} {
		t.Run(address, func(t *testing.T) {
			_, conn, nic := routed(t)
			start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
			now := start
			conn.now = func() time.Time { return now }
			prefix := netip.MustParsePrefix(address)
			config := AddressConfig{Prefix: prefix, Valid: start.Add(3 * time.Hour), Preferred: start.Add(2 * time.Hour)}
			if err := conn.SetAddress(nic, config); err != nil {
				t.Fatal(err)
			}
			saved := findAddress(t, conn, prefix).Saved
			now = start.Add(time.Hour)
			if err := errors.Join(conn.DeleteAddress(nic, saved), conn.RestoreAddress(nic, saved)); err != nil {
				t.Fatal(err)
			}
			// The test's own time passes too, but not half an hour of it.
			back := findAddress(t, conn, prefix)
			for what, d := range map[string]time.Duration{
				"valid": back.Valid.Sub(now) - 2*time.Hour, "preferred": back.Preferred.Sub(now) - time.Hour,
			} {
				if d.Abs() > 30*time.Minute {
					t.Errorf("%s is wrong by %s", what, d)
				}
			}
			if !back.Equal(saved) || back.Kernel {
				t.Errorf("restored %+v, want %+v", back, saved)
			}
			// It can be prolonged, for ever too.
			if err := conn.SetAddress(nic, AddressConfig{Prefix: prefix}); err != nil {
				t.Fatal(err)
			}
			if a := findAddress(t, conn, prefix); a.Valid != nil || a.Preferred != nil {
				t.Errorf("valid until %v, preferred until %v, want for ever", a.Valid, a.Preferred)
			}
			// One whose time is over stays away.
			now = start.Add(4 * time.Hour)
			if err := errors.Join(conn.DeleteAddress(nic, saved), conn.RestoreAddress(nic, saved)); err != nil {
				t.Fatal(err)
			}
			if findAddress(t, conn, prefix) != nil || !saved.Expired(now) {
				t.Error("an address that had expired came back")
			}
			if err := conn.SetAddress(nic, config); err == nil {
				t.Error("an address was set that had expired")
			}
		})
	}
}

func TestScope(t *testing.T) {
	ns, conn, nic := routed(t)
	config := AddressConfig{Prefix: netip.MustParsePrefix("10.6.0.1/32"), Scope: unix.RT_SCOPE_LINK}
	if err := conn.SetAddress(nic, config); err != nil {
		t.Fatal(err)
	}
	a := findAddress(t, conn, config.Prefix)
	if a.Scope != unix.RT_SCOPE_LINK || a.Global {
		t.Errorf("scope %d, global %t", a.Scope, a.Global)
	}
	if err := errors.Join(conn.DeleteAddress(nic, a.Saved), conn.RestoreAddress(nic, a.Saved)); err != nil {
		t.Fatal(err)
	}
	if out := ns.Run(t, "ip address show dev nic0 scope link"); !strings.Contains(out, "inet 10.6.0.1/32 scope link") {
		t.Errorf("restored as\n%s", out)
	}
}

func findAddress(t *testing.T, conn *Conn, prefix netip.Prefix) *Address {
	t.Helper()
	addresses, err := conn.Addresses()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if a.Prefix == prefix {
			return &a
		}
	}
	return nil
}

func TestVRF(t *testing.T) {
	hosttest.NeedLink(t, "vrf")
	ns, conn, nic := routed(t)
	vrf, err := conn.CreateVRF("blue", 4711)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := conn.CreateVRF("blue", 4711); again != vrf || err != nil {
		t.Errorf("made again: %d, %v, want %d", again, err, vrf)
	}
	if _, err := conn.CreateVRF("blue", 4712); err == nil || !strings.Contains(err.Error(), "4711") {
		t.Errorf("another table: %v", err)
	}
	if _, err := conn.CreateVRF("nic0", 4712); err == nil {
		t.Error("a NIC was taken for a VRF")
	}
	if err := conn.SetMaster(nic, &vrf); err != nil {
		t.Fatal(err)
	}
	l, err := conn.LinkByName("nic0")
	if err != nil || l.Master == nil || *l.Master != vrf || l.SlaveKind == nil || *l.SlaveKind != "vrf" {
		t.Errorf("the VRF's port is %+v, %v", l, err)
	}
	if err := conn.SetMaster(nic, nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := conn.DeleteLink(vrf); err != nil {
			t.Fatal(err)
		}
	}
	if out := ns.Run(t, "ip -o link show"); strings.Contains(out, "blue") {
		t.Errorf("after deletion\n%s", out)
	}
}

func TestBridgePort(t *testing.T) {
	ns, conn, nic := routed(t)
	ns.Run(t, "ip link add br0 type bridge")
	bridge := indexOf(t, conn, "br0")
	if err := conn.SetMaster(nic, &bridge); err != nil {
		t.Fatal(err)
	}
	l, err := conn.LinkByName("nic0")
	if err != nil || l.Master == nil || *l.Master != bridge || *l.SlaveKind != "bridge" || l.VRFTable != nil {
		t.Errorf("the bridge's port is %+v, %v", l, err)
	}
	if err := conn.SetMaster(nic, nil); err != nil {
		t.Fatal(err)
	}
	if l, err := conn.LinkByName("nic0"); err != nil || l.Master != nil || l.SlaveKind != nil {
		t.Errorf("a port no more: %+v, %v", l, err)
	}
}
