// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/host/hosttest"
)

// crowd is how many addresses, routes and neighbours a pod has made, each of
// them.
const crowd = 1000

// crowded is a namespace with nic0, which has one address, one route and one
// neighbour, and with nic1, which has a crowd of each.
func crowded(t *testing.T) (conn *Conn, nic, other int) {
	t.Helper()
	ns := hosttest.NewNamespace(t)
	var b strings.Builder
	b.WriteString(`
		ip link add nic0 type veth peer name nic1
		ip link set nic0 up
		ip link set nic1 up
		ip address add fd00::1/64 dev nic0 nodad
		ip route add 10.1.0.0/16 dev nic0
		ip neighbour add fd00::9 lladdr 02:00:00:00:00:09 nud permanent dev nic0
`)
	for i := range crowd {
		fmt.Fprintf(&b, "ip address add fd01::%x/128 dev nic1 nodad\n", i+1)
	}
	for i := range crowd {
		fmt.Fprintf(&b, "ip neighbour add fd02::%x lladdr 02:00:00:00:00:08 nud permanent dev nic1\n", i+1)
	}
	for i := range crowd {
		fmt.Fprintf(&b, "ip route add 10.2.%d.%d dev nic1\n", i>>8, i&255)
	}
	ns.Run(t, b.String())
	conn = dialIn(t, ns)
	return conn, indexOf(t, conn, "nic0"), indexOf(t, conn, "nic1")
}

// allocated is how many bytes fn allocates, garbage included.
func allocated(fn func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Reading one link costs no more for what a pod has put on others, and a list over the
// Limit is refused.
func TestOthersCostNothing(t *testing.T) {
	conn, nic, other := crowded(t)
	const most = 64 << 10
	route := RouteConfig{Destination: netip.MustParsePrefix("10.1.0.0/16"), Gateway: netip.MustParseAddr("10.1.0.1"), OnLink: true}
	for what, look := range map[string]func() (int, error){
		"addresses": func() (int, error) {
			list, err := conn.PrefixesOf(nic)
			list = slices.DeleteFunc(list, func(p Prefix) bool { return !p.Global })
			return len(list), err
		},
		"an address to drop": func() (int, error) { return 1, conn.DropAddress(nic, netip.MustParsePrefix("fd77::1/64")) },
		"neighbours": func() (int, error) {
			list, err := conn.Neighbours(nic)
			return len(list), err
		},
		"a route in another's place": func() (int, error) {
			if err := conn.AddRoute(nic, route); err == nil {
				return 0, errors.New("it was added")
			}
			return 1, nil
		},
	} {
		t.Run(what, func(t *testing.T) {
			cost := allocated(func() {
				if n, err := look(); n != 1 || err != nil {
					t.Errorf("found %d, want 1: %v", n, err)
				}
			})
			if cost > most {
				t.Errorf("allocated %d bytes, want at most %d", cost, most)
			}
		})
	}

	conn.Limit(crowd / 2)
	_, err := conn.PrefixesOf(other)
	if want := fmt.Sprintf("list addresses: too many: more than %d", crowd/2); !errors.Is(err, ErrTooMany) || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if _, err := conn.Routes(0); !errors.Is(err, ErrTooMany) {
		t.Errorf("all routes: %v", err)
	}
	// The socket is as good as before, and less than the limit is given.
	if list, err := conn.PrefixesOf(nic); err != nil || len(list) == 0 {
		t.Errorf("after a refusal: %v, %v", list, err)
	}
}

// A NIC is found among any number of links, and none of them is kept.
func TestLinksWhere(t *testing.T) {
	ns := hosttest.NewNamespace(t)
	var b strings.Builder
	for i := range 50 {
		fmt.Fprintf(&b, "ip link add a%d type veth peer name b%d\n", i, i)
	}
	ns.Run(t, b.String())
	conn := dialIn(t, ns)
	conn.Limit(10)
	links, err := conn.LinksWhere(func(l *Link) bool { return l.Name == "a7" || l.Name == "b31" })
	if err != nil || len(links) != 2 || links[0].Name == links[1].Name {
		t.Errorf("found %+v, %v", links, err)
	}
	if _, err := conn.Links(); !errors.Is(err, ErrTooMany) {
		t.Errorf("all links: %v", err)
	}
	if _, err := conn.LinksWhere(func(*Link) bool { return true }); !errors.Is(err, ErrTooMany) {
		t.Errorf("all links that are wanted: %v", err)
	}
}
