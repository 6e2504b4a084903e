// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysctl_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/host/sysctl"
)

const root = "/proc/sys"

// The settings are those of the namespace, not of the process: both have a
// nic.0, and the name's dot is no way into a directory.
func TestTheNamespacesOwn(t *testing.T) {
	a, b := hosttest.NewNamespace(t), hosttest.NewNamespace(t)
	hosttest.Veth(t, a, "nic.0", b, "nic.0")
	inA, inB := sysctl.New(root, a.Fd()), sysctl.New(root, b.Fd())
	if err := inA.Write("nic.0", "ipv4/conf/arp_ignore", "2"); err != nil {
		t.Fatal(err)
	}
	for net, want := range map[sysctl.Net]string{inA: "2", inB: "0"} {
		if got, err := net.Read("nic.0", "ipv4/conf/arp_ignore"); got != want || err != nil {
			t.Errorf("arp_ignore = %q, %v, want %q", got, err, want)
		}
	}
	if got := a.Run(t, "cat /proc/sys/net/ipv4/conf/nic.0/arp_ignore"); got != "2\n" {
		t.Errorf("a process in the namespace sees %q", got)
	}
	own, err := netns.Open(netns.Self)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = own.Close() }()
	if _, err := sysctl.New(root, own.Fd()).Read("nic.0", "ipv4/conf/arp_ignore"); !errors.Is(err, sysctl.ErrLacks) {
		t.Errorf("in the process's own namespace: %v, want ErrLacks", err)
	}
}

// What a move loses comes back, in one namespace after the other.
func TestRestoreAfterAMove(t *testing.T) {
	host, pod := hosttest.NewNamespace(t), hosttest.NewNamespace(t)
	hosttest.Veth(t, host, "nic0", host, "nic1")
	host.Run(t, `
		ip link set nic0 up
		sysctl -q -w net.ipv4.conf.nic0.arp_announce=2 net.ipv4.conf.nic0.forwarding=1
		sysctl -q -w net.ipv4.neigh.nic0.base_reachable_time_ms=1500 net.ipv4.neigh.nic0.unres_qlen_bytes=12345
		sysctl -q -w net.ipv6.conf.nic0.accept_ra=0 net.ipv6.conf.nic0.mtu=1280 net.ipv6.neigh.nic0.gc_stale_time=7`)
	net := sysctl.New(root, host.Fd())
	before, err := net.Snapshot("nic0", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"ipv4/conf/arp_announce": "2", "ipv6/conf/mtu": "1280", "ipv6/neigh/gc_stale_time": "7"} {
		if before[key] != want {
			t.Errorf("%s = %q, want %q", key, before[key], want)
		}
	}
	there, back := dial(t, host), dial(t, pod)
	link, err := there.LinkByName("nic0")
	if err != nil {
		t.Fatal(err)
	}
	if err := there.Move(link.Index, pod.Fd(), rtnl.Change{}); err != nil {
		t.Fatal(err)
	}
	if link, err = back.LinkByName("nic0"); err != nil {
		t.Fatal(err)
	}
	if err := back.Move(link.Index, host.Fd(), rtnl.Change{}); err != nil {
		t.Fatal(err)
	}
	moved, err := net.Snapshot("nic0", "", nil)
	if err != nil || moved["ipv4/conf/arp_announce"] == "2" || moved["ipv6/neigh/gc_stale_time"] == "7" {
		t.Errorf("the move lost nothing: %v, %v", moved, err)
	}
	before["ipv4/conf/no_such_setting"] = "1"
	lacks, err := net.Restore("nic0", before)
	if diff := cmp.Diff([]string{"ipv4/conf/no_such_setting"}, lacks); diff != "" || err != nil {
		t.Errorf("restore: %v, lacking (-want +got):\n%s", err, diff)
	}
	delete(before, "ipv4/conf/no_such_setting")
	after, err := net.Snapshot("nic0", "", nil)
	if diff := cmp.Diff(before, after); diff != "" || err != nil {
		t.Errorf("restored: %v, (-before +after):\n%s", err, diff)
	}
}

// Of these Linux 6.1 says that it took one byte, and has taken all.
func TestWriteWhatTheKernelSaysItTookLessOf(t *testing.T) {
	ns := hosttest.NewNamespace(t)
	hosttest.Veth(t, ns, "nic0", ns, "nic1")
	net := sysctl.New(root, ns.Fd())
	for _, key := range []string{"ipv6/conf/ignore_routes_with_linkdown", "ipv6/conf/forwarding"} {
		for _, value := range []string{"1", "12", "0"} {
			if err := net.Write("nic0", key, value); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestWriteAll(t *testing.T) {
	ns := hosttest.NewNamespace(t)
	hosttest.Veth(t, ns, "nic0", ns, "nic1")
	net := sysctl.New(root, ns.Fd())
	if err := net.WriteAll("ipv6/conf/forwarding", "1"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"nic0", "nic1"} {
		if got, err := net.Read(name, "ipv6/conf/forwarding"); got != "1" || err != nil {
			t.Errorf("forwarding of %s = %q, %v", name, got, err)
		}
	}
	for _, key := range []string{"ipv6/conf/..", "forwarding", "ipv6/conf/nic0/forwarding"} {
		if err := net.WriteAll(key, "1"); err == nil || errors.Is(err, sysctl.ErrLacks) {
			t.Errorf("key %q: %v, want a refusal", key, err)
		}
	}
}

func dial(t *testing.T, ns *hosttest.Namespace) *rtnl.Conn {
	t.Helper()
	conn, err := rtnl.Dial(ns.Fd())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func TestRefusals(t *testing.T) {
	ns := hosttest.NewNamespace(t)
	hosttest.Veth(t, ns, "nic0", ns, "nic1")
	net := sysctl.New(root, ns.Fd())
	for _, name := range []string{"all", "default", "", ".", "..", "../conf/lo", "nic0/../lo", "a b", "nic0:1", "a\x00", strings.Repeat("n", 16)} {
		if err := net.Write(name, "ipv4/conf/arp_ignore", "1"); err == nil || errors.Is(err, sysctl.ErrLacks) {
			t.Errorf("interface %q: %v, want a refusal", name, err)
		}
		if _, err := net.Snapshot(name, "", nil); err == nil {
			t.Errorf("interface %q: a snapshot", name)
		}
	}
	for _, key := range []string{"arp_ignore", "ipv4/arp_ignore", "ipv4/conf/", "ipv4/conf/..", "ipv4/conf/../../ip_forward", "ipv4/conf/all/forwarding", ""} {
		if err := net.Write("nic0", key, "1"); err == nil || errors.Is(err, sysctl.ErrLacks) {
			t.Errorf("key %q: %v, want a refusal", key, err)
		}
	}
	if err := net.Write("nic0", "ipv6/conf/no_such_setting", "1"); !errors.Is(err, sysctl.ErrLacks) {
		t.Errorf("a setting that no kernel has: %v, want ErrLacks", err)
	}
	if err := net.Write("nic0", "ipv4/conf/mc_forwarding", "1"); !errors.Is(err, sysctl.ErrReadOnly) {
		t.Errorf("a read-only setting: %v, want ErrReadOnly", err)
	}
	if err := net.Write("nic0", "ipv4/conf/arp_ignore", "many"); err == nil {
		t.Error("a word was taken for a number")
	}
	if got, err := net.Read("lo", "ipv4/conf/arp_ignore"); got != "0" || err != nil {
		t.Errorf("lo has arp_ignore %q, %v", got, err)
	}
}

// A kernel that keeps another value than it was given.
func TestNotTaken(t *testing.T) {
	ns := hosttest.NewNamespace(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "net/ipv4/conf/nic0")
	if err := errors.Join(os.MkdirAll(path, 0o700), os.Symlink(os.DevNull, filepath.Join(path, "arp_ignore"))); err != nil {
		t.Fatal(err)
	}
	var notTaken *sysctl.NotAppliedError
	if err := sysctl.New(dir, ns.Fd()).Write("nic0", "ipv4/conf/arp_ignore", "1"); !errors.As(err, &notTaken) || notTaken.Got != "" {
		t.Errorf("a value that was not kept: %v", err)
	}
}
