// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What a link answers for and takes beside its own comes back as it was, and is
// nothing of another link's.
func TestProxiesAndStations(t *testing.T) {
	ns, conn, nic := routed(t)
	ns.Run(t, `
		ip neighbour add proxy 10.0.0.7 dev nic0 proto 5
		ip neighbour add proxy fd00::7 dev nic0 router
		ip neighbour add proxy 10.0.0.8 dev nic1
		ip neighbour add 10.0.0.9 lladdr 02:00:00:00:00:09 nud permanent dev nic0
		bridge fdb add 02:00:00:00:00:77 dev nic0 self permanent
		bridge fdb add 02:00:00:00:00:78 dev nic1 self permanent`)
	show := func() string { // without the groups that the kernel joins in its own time
		var own strings.Builder
		for line := range strings.Lines(ns.Run(t, "ip neighbour show proxy dev nic0\nbridge fdb show dev nic0")) {
			if !strings.HasPrefix(line, "33:33") && !strings.HasPrefix(line, "01:00") {
				own.WriteString(line)
			}
		}
		return own.String()
	}
	read := map[string]func(int) ([]Saved, error){"proxies": conn.Proxies, "stations": conn.UnicastEntries}
	want := map[string][]string{"proxies": {"proxy 10.0.0.7", "proxy fd00::7"}, "stations": {"02:00:00:00:00:77 self"}}
	before := show()
	for what, list := range read {
		saved, err := list(nic)
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, s := range saved {
			texts = append(texts, s.Text)
		}
		if diff := cmp.Diff(want[what], texts); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
		if what == "proxies" {
			ns.Run(t, "ip neighbour del proxy 10.0.0.7 dev nic0\nip neighbour del proxy fd00::7 dev nic0")
		} else {
			ns.Run(t, "bridge fdb del 02:00:00:00:00:77 dev nic0 self")
		}
		for range 2 { // also when they are there
			for _, s := range saved {
				if err := conn.RestoreNeighbour(nic, s); err != nil {
					t.Error(err)
				}
			}
		}
		again, err := list(nic)
		if diff := cmp.Diff(saved, again); diff != "" || err != nil {
			t.Errorf("%s restored: %v, (-before +after):\n%s", what, err, diff)
		}
	}
	if diff := cmp.Diff(before, show()); diff != "" {
		t.Errorf("restored (-before +after):\n%s", diff)
	}
}

// A move loses the token, and each setting goes there and back.
func TestTokenModeAndBroadcast(t *testing.T) {
	ns, conn, nic := routed(t)
	ns.Run(t, `
		ip token set ::5 dev nic0
		ip link set nic0 mode dormant
		ip link set nic0 broadcast ff:ff:ff:ff:ff:fe`)
	look := func() Link {
		t.Helper()
		l, err := conn.LinkByName("nic0")
		if err != nil || l == nil {
			t.Fatal("nic0 is gone: ", err)
		}
		return *l
	}
	before := look()
	ns.Run(t, "ip token set :: dev nic0\nip link set nic0 mode default\nip link set nic0 broadcast ff:ff:ff:ff:ff:ff")
	change := before.Settings.Beyond(look().Settings)
	if got, want := change.String(), "token ::5, mode 1, broadcast ff:ff:ff:ff:ff:fe"; got != want {
		t.Errorf("differ in %q, want %q", got, want)
	}
	if err := conn.Set(nic, Change{Settings: change}); err != nil {
		t.Fatal(err)
	}
	if lost := before.Settings.Beyond(look().Settings); lost != (Settings{}) {
		t.Errorf("not set: %s", lost)
	}
}
