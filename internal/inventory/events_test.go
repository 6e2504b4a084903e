// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/model"
)

// watchNamespace looks at a namespace whose NIC is eth0, and returns what Watch
// sends after the first look.
func watchNamespace(t *testing.T, n *Netlink, lost func()) (<-chan Snapshot, *countedLinks) {
	t.Helper()
	counted := &countedLinks{links: n}
	sys := tree(t, small())
	for name := range sys {
		if strings.HasPrefix(name, "class/net/") && name != "class/net/eth0" {
			delete(sys, name)
		}
	}
	seen := Watch(t.Context(), Sources{Sys: sys, Links: counted}, Options{
		Lost: lost, Virtual: func(model.Interface) bool { return true }, // a veth plays the hardware
	}, time.Hour)
	if first := <-seen; first.Err != nil {
		t.Fatal(first.Err)
	}
	return seen, counted
}

// countedLinks counts calls of Links.
type countedLinks struct {
	links Links
	looks atomic.Int64
}

func (c *countedLinks) Links(ctx context.Context) ([]LinkFacts, error) {
	c.looks.Add(1)
	return c.links.Links(ctx)
}

func (c *countedLinks) Subscribe(ctx context.Context) (<-chan struct{}, error) {
	return c.links.Subscribe(ctx)
}

// until takes snapshots until one of them satisfies.
func until(t *testing.T, seen <-chan Snapshot, what string, satisfied func(Snapshot) bool) {
	t.Helper()
	limit := time.After(20 * time.Second)
	for {
		select {
		case s := <-seen:
			if satisfied(s) {
				return
			}
		case <-limit:
			t.Fatalf("never seen: %s", what)
		}
	}
}

// eth0's fact as the last snapshot tells it.
func withheldEth0(s Snapshot) string {
	if s.Err != nil || len(s.Machine.NICs) == 0 || s.Machine.NICs[0].Withheld == nil {
		return ""
	}
	return *s.Machine.NICs[0].Withheld
}

func mtuEth0(s Snapshot) int {
	if s.Err != nil || len(s.Machine.NICs) == 0 || s.Machine.NICs[0].Interface == nil || s.Machine.NICs[0].Interface.MTU == nil {
		return 0
	}
	return *s.Machine.NICs[0].Interface.MTU
}

func openWatched(t *testing.T, nodeAddresses ...netip.Addr) (*hosttest.Namespace, *Netlink) {
	t.Helper()
	ns := hosttest.NewNamespace(t)
	ns.Run(t, `
		ip link add eth0 type veth peer name far0
		ip link set far0 up
		ip link set eth0 up`)
	n, err := OpenNetlink(ns.Fd(), nodeAddresses)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return ns, n
}

// With a buffer for a handful of events, most of two thousand are lost: the inventory
// still has the final state, and gets further events.
func TestOverflowLosesNoState(t *testing.T) {
	ns, n := openWatched(t)
	n.eventBytes = 1
	var losses atomic.Int64
	seen, _ := watchNamespace(t, n, func() { losses.Add(1) })
	var lines strings.Builder
	const events = 2000
	for i := range events {
		fmt.Fprintf(&lines, "ip link set eth0 mtu %d\n", 1000+i%100)
	}
	lines.WriteString("ip link set eth0 mtu 1234\n")
	ns.Run(t, lines.String())
	until(t, seen, "the last MTU", func(s Snapshot) bool { return mtuEth0(s) == 1234 })
	if losses.Load() == 0 {
		t.Errorf("%d events with room for a handful: no loss was noticed", events)
	}
	ns.Run(t, "ip link set eth0 mtu 1300")
	until(t, seen, "an event after the losses", func(s Snapshot) bool { return mtuEth0(s) == 1300 })
	t.Logf("%d events: %d losses, nothing missed", events, losses.Load())
}

// A link that flaps costs a few scans, however often it does.
func TestFlapsAreCoalesced(t *testing.T) {
	ns, n := openWatched(t)
	seen, counted := watchNamespace(t, n, nil)
	before := counted.looks.Load()
	var lines strings.Builder
	const flaps = 500
	for range flaps {
		lines.WriteString("ip link set far0 down\nip link set far0 up\n")
	}
	lines.WriteString("ip link set eth0 mtu 1234\n")
	started := time.Now()
	ns.Run(t, lines.String())
	until(t, seen, "the end", func(s Snapshot) bool { return mtuEth0(s) == 1234 })
	looks, took := counted.looks.Load()-before, time.Since(started)
	if most := int64(took/coalesce) + 2; looks > most {
		t.Errorf("%d flaps in %v cost %d looks, want at most one in %v", flaps, took, looks, coalesce)
	}
	t.Logf("%d flaps in %v: %d looks", flaps, took.Round(time.Millisecond), looks)
}

// A link that comes to carry the default route is withheld from then on, and
// only as long, for both families.
func TestUplinksAreTrackedLive(t *testing.T) {
	for name, tt := range map[string]struct{ add, remove string }{
		"IPv4": {
			"ip address add 192.0.2.2/24 dev eth0\nip route add default via 192.0.2.1",
			"ip route delete default",
		},
		"IPv6": {
			"ip address add 2001:db8::2/64 dev eth0 nodad\nip -6 route add default via 2001:db8::1 dev eth0",
			"ip -6 route delete default",
		},
	} {
		t.Run(name, func(t *testing.T) {
			ns, n := openWatched(t)
			seen, _ := watchNamespace(t, n, nil)
			ns.Run(t, tt.add)
			until(t, seen, "withheld", func(s Snapshot) bool { return withheldEth0(s) == "carries the default route" })
			ns.Run(t, tt.remove)
			until(t, seen, "free again", func(s Snapshot) bool { return s.Err == nil && withheldEth0(s) == "" })
		})
	}
}

// A node that is given another address keeps the link that owns it.
func TestNodeAddressIsTrackedLive(t *testing.T) {
	ns, n := openWatched(t)
	ns.Run(t, "ip address add 10.0.0.5/24 dev eth0")
	seen, _ := watchNamespace(t, n, nil)
	n.SetNodeAddresses([]netip.Addr{netip.MustParseAddr("10.0.0.5")})
	until(t, seen, "withheld", func(s Snapshot) bool { return withheldEth0(s) == "owns the node's address 10.0.0.5" })
	n.SetNodeAddresses(nil)
	until(t, seen, "free again", func(s Snapshot) bool { return s.Err == nil && withheldEth0(s) == "" })
}
