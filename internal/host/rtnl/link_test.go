// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/host/hosttest"
)

func TestLookUpOneLink(t *testing.T) {
	ns := hosttest.NewNamespace(t)
	ns.Run(t, `
		ip link add nic0 type veth peer name nic1
		ip link property add dev nic0 altname a-name-that-is-longer-than-fifteen
		ip link property add dev nic0 altname short`)
	conn := dialIn(t, ns)
	links, err := conn.Links()
	if err != nil {
		t.Fatal(err)
	}
	want := links[slices.IndexFunc(links, func(l Link) bool { return l.Name == "nic0" })]
	if !slices.Equal(want.AltNames, []string{"a-name-that-is-longer-than-fifteen", "short"}) {
		t.Errorf("alternative names %q", want.AltNames)
	}
	for _, name := range []string{"nic0", "short", "a-name-that-is-longer-than-fifteen"} {
		got, err := conn.LinkByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("LinkByName(%q) (-Links +got):\n%s", name, diff)
		}
	}
	if got, err := conn.LinkByName("nic7"); got != nil || err != nil {
		t.Errorf("LinkByName of none = %v, %v", got, err)
	}
	// A dump and four look-ups.
	if got, want := conn.Counts(), (Counts{Sockets: 1, Setns: 2, Messages: 5}); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
}

func dialIn(t *testing.T, ns *hosttest.Namespace) *Conn {
	t.Helper()
	conn, err := Dial(ns.Fd())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// indexOf is a link's ifindex.
func indexOf(t *testing.T, conn *Conn, name string) int {
	t.Helper()
	l, err := conn.LinkByName(name)
	if err != nil || l == nil {
		t.Fatalf("link %s: %v, %v", name, l, err)
	}
	return l.Index
}

func FuzzLink(f *testing.F) {
	f.Add([]byte{0, 0, 1, 0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 8, 0, 3, 0, 'e', 't', 'h', 0, 5, 0, 16, 0, 6, 0, 0, 0,
		20, 0, 18, 0, 8, 0, 1, 0, 'v', 'r', 'f', 0, 12, 0, 2, 0, 8, 0, 1, 0, 9, 0, 0, 0})
	f.Add([]byte{0, 0, 1, 0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,
		16, 0, 26, 0, 12, 0, 10, 0, 5, 0, 8, 0, 1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, body []byte) {
		before := slices.Clone(body)
		first, err := parseLink(body)
		if err != nil {
			return
		}
		if !slices.Equal(body, before) {
			t.Error("reading a message changed it")
		}
		// Nothing of the result may lie in the socket's buffer.
		clear(body)
		second, _ := parseLink(before)
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("the link changed with the message: %s", diff)
		}
	})
}
