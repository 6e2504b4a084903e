// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

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

// Settings alone make the digest: not what changes all the time beside them.
func TestConfDigest(t *testing.T) {
	attribute := func(kind int, value []byte) []byte { return nl.NewRtAttr(kind, value).Serialize() }
	spec := func(families ...[]byte) string {
		body := slices.Concat(make([]byte, unix.SizeofIfInfomsg), attribute(unix.IFLA_AF_SPEC, slices.Concat(families...)))
		l, err := parseLink(body)
		if err != nil {
			t.Fatal(err)
		}
		return l.ConfDigest
	}
	list := func(first byte) []byte { return []byte{first, 0, 0, 0, 0, 0, 0, 0} }
	inet := func(conf []byte) []byte { return attribute(unix.AF_INET, attribute(unix.IFLA_INET_CONF, conf)) }
	inet6 := func(conf []byte, others byte) []byte {
		return attribute(unix.AF_INET6, slices.Concat(
			attribute(unix.IFLA_INET6_FLAGS, list(others)), attribute(unix.IFLA_INET6_CACHEINFO, list(others)),
			attribute(unix.IFLA_INET6_CONF, conf),
			attribute(unix.IFLA_INET6_STATS, list(others)), attribute(unix.IFLA_INET6_ICMP6STATS, list(others))))
	}
	both := spec(inet(list(1)), inet6(list(1), 0))
	if again := spec(inet(list(1)), inet6(list(1), 9)); both == "" || again != both {
		t.Errorf("digests %x and %x of the same settings", both, again)
	}
	seen := map[string]string{both: "both"}
	for name, digest := range map[string]string{
		"another setting of IPv4": spec(inet(list(2)), inet6(list(1), 0)),
		"another setting of IPv6": spec(inet(list(1)), inet6(list(2), 0)),
		"IPv4 alone":              spec(inet(list(1))),
		"IPv6 alone":              spec(inet6(list(1), 0)),
		"a longer list":           spec(inet(append(list(1), 0, 0, 0, 0)), inet6(list(1), 0)),
	} {
		if same := seen[digest]; same != "" || digest == "" {
			t.Errorf("%s has the digest %x of %q", name, digest, same)
		}
		seen[digest] = name
	}
	for name, digest := range map[string]string{
		"no family":         spec(),
		"no list":           spec(attribute(unix.AF_INET6, attribute(unix.IFLA_INET6_FLAGS, list(1)))),
		"a truncated list":  spec(inet(list(1)), attribute(unix.AF_INET6, []byte{200, 0, unix.IFLA_INET6_CONF, 0})),
		"of another family": spec(attribute(unix.AF_MCTP, attribute(unix.IFLA_INET_CONF, list(1)))),
	} {
		if digest != "" {
			t.Errorf("%s: digest %x, want none", name, digest)
		}
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
