// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysctl

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

const proc = "/proc/sys"

// twins are two NICs of one namespace, and the namespace's settings.
func twins(t *testing.T) (Net, *rtnl.Conn) {
	t.Helper()
	ns := hosttest.NewNamespace(t)
	hosttest.Veth(t, ns, "nic0", ns, "nic1")
	conn, err := rtnl.Dial(ns.Fd())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return New(proc, ns.Fd()), conn
}

func digestOf(t *testing.T, conn *rtnl.Conn, name string) string {
	t.Helper()
	l, err := conn.LinkByName(name)
	if err != nil || l == nil || l.ConfDigest == "" {
		t.Fatalf("link %s: %+v, %v", name, l, err)
	}
	return l.ConfDigest
}

// fromFiles is a snapshot of a Net that remembers nothing.
func fromFiles(t *testing.T, net Net, name string) Settings {
	t.Helper()
	settings, err := New(net.root, net.namespace).Snapshot(name, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	return settings
}

// others are values that a setting may take in the place of one.
func others(value string) []string {
	list := []string{"0", "1", "2", "3", "1280", "86400"}
	if n, err := strconv.Atoi(value); err == nil {
		list = append(list, strconv.Itoa(n+1), strconv.Itoa(n-1))
	}
	return slices.DeleteFunc(list, func(v string) bool { return v == value })
}

// The kernel lists every setting of the table listed: each is changed, and the digest of
// the link's message must change. NICs with the same settings have the same digest.
func TestListedSettings(t *testing.T) {
	net, conn := twins(t)
	all := fromFiles(t, net, "nic0")
	first := digestOf(t, conn, "nic0")
	if second := digestOf(t, conn, "nic1"); second != first {
		t.Fatal("two new NICs have two digests")
	}
	var existing, checked int
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if !isListed(key) {
			if !strings.Contains(key, "/neigh/") {
				t.Logf("%s is not listed", key)
			}
			continue
		}
		existing++
		value := all[key]
		i := slices.IndexFunc(others(value), func(v string) bool { return net.Write("nic0", key, v) == nil })
		if i < 0 {
			t.Logf("%s: the kernel takes none of %v in the place of %s", key, others(value), value)
			continue
		}
		checked++
		changed := digestOf(t, conn, "nic0")
		if changed == first {
			t.Errorf("%s = %s in the place of %s: the link's message says nothing of it", key, others(value)[i], value)
		}
		if err := net.Write("nic1", key, others(value)[i]); err != nil {
			t.Error(err)
		}
		if digestOf(t, conn, "nic1") != changed {
			t.Errorf("%s = %s of both NICs: two digests", key, others(value)[i])
		}
		if diff := cmp.Diff(fromFiles(t, net, "nic0"), fromFiles(t, net, "nic1")); diff != "" {
			t.Errorf("%s = %s of both NICs (-nic0 +nic1):\n%s", key, others(value)[i], diff)
		}
		for _, name := range []string{"nic0", "nic1"} {
			if _, err := net.Restore(name, all); err != nil {
				t.Error(err)
			}
			if digestOf(t, conn, name) != first {
				t.Errorf("%s: %s was changed and restored, and the digest is another", name, key)
			}
		}
	}
	t.Logf("%d of %d listed settings could be changed", checked, existing)
	if existing == 0 || 10*checked < 7*existing {
		t.Errorf("%d of %d listed settings could be changed, want seven of ten at least", checked, existing)
	}
}

// Whatever is written, a snapshot is what the files say.
func TestSnapshotsAreAsTheFiles(t *testing.T) {
	ns := hosttest.NewNamespace(t)
	hosttest.Veth(t, ns, "nic0", ns, "nic1")
	hosttest.Veth(t, ns, "nic2", ns, "nic3")
	conn, err := rtnl.Dial(ns.Fd())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	net := New(proc, ns.Fd())
	nics := []string{"nic0", "nic1", "nic2", "nic3"}
	all := fromFiles(t, net, "nic0")
	keys := slices.Sorted(maps.Keys(all))
	few := keys[:0:0] // so that NICs often have the same settings
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 5 {
		few = append(few, keys[r.IntN(len(keys))])
	}
	few = append(few, "ipv6/conf/disable_ipv6", "ipv6/conf/mtu", "ipv4/conf/forwarding")
	asked := 0
	const steps = 150
	for step := range steps {
		name, key := nics[r.IntN(len(nics))], few[r.IntN(len(few))]
		value := all[key]
		if r.IntN(2) == 0 {
			choice := others(value)
			value = choice[r.IntN(len(choice))]
		}
		_ = net.Write(name, key, value) // the kernel may refuse it
		if step%20 == 19 {
			// Without IPv6 below 1280 bytes.
			ns.Run(t, fmt.Sprintf("ip link set %s mtu %d", name, []int{1200, 1500}[r.IntN(2)]))
		}
		for _, name := range nics {
			now := func() (string, error) { asked++; return digestOf(t, conn, name), nil }
			got, err := net.Snapshot(name, digestOf(t, conn, name), now)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(fromFiles(t, net, name), got); diff != "" {
				t.Fatalf("seed %d, step %d, %s = %s of %s; %s (-files +snapshot):\n%s", seed, step, key, value, name, name, diff)
			}
		}
	}
	if asked == 0 || asked > steps*len(nics)/2 {
		t.Errorf("seed %d: %d of %d snapshots were of a digest that was not seen", seed, asked, steps*len(nics))
	}
}

// What changed after the link was listed must not be found under the digest of
// before.
func TestChangesMeanwhileAreNotRemembered(t *testing.T) {
	const key, old, changed = "ipv4/conf/arp_announce", "0", "2"
	for name, c := range map[string]struct{ beforeReading, beforeAsked, afterAsked string }{
		"before it was read":                      {beforeReading: changed},
		"before it was read, and back afterwards": {beforeReading: changed, beforeAsked: old},
		"after it was asked for again":            {afterAsked: changed},
	} {
		t.Run(name, func(t *testing.T) {
			net, conn := twins(t)
			write := func(value string) {
				t.Helper()
				if value == "" {
					return
				}
				if err := net.Write("nic0", key, value); err != nil {
					t.Fatal(err)
				}
			}
			digest := digestOf(t, conn, "nic0")
			write(c.beforeReading)
			_, err := net.Snapshot("nic0", digest, func() (string, error) {
				write(c.beforeAsked)
				now := digestOf(t, conn, "nic0")
				write(c.afterAsked)
				return now, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if conf := net.confCache.of(digest); conf != nil {
				t.Errorf("remembered %s = %s", key, conf[key])
			}
			// The other NIC has that digest, and is not taken for this one.
			got, err := net.Snapshot("nic1", digest, func() (string, error) { return digestOf(t, conn, "nic1"), nil })
			if err != nil || got[key] != old {
				t.Errorf("nic1 has %s = %q, %v, want %s", key, got[key], err, old)
			}
			if net.confCache.of(digest) == nil {
				t.Error("nothing changed, and nothing was remembered")
			}
		})
	}
}

// fake makes settings of an interface, each with the same value.
func fake(t *testing.T, root, ifname, value string, keys ...string) {
	t.Helper()
	for _, key := range keys {
		group, name, _ := cutLast(key)
		dir := filepath.Join(root, "net", group, ifname)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// For a second NIC with the same digest only files of settings that are not listed are
// read.
func TestWhatASecondNICCosts(t *testing.T) {
	root := t.TempDir()
	known := []string{"ipv4/conf/arp_ignore", "ipv6/conf/accept_ra", "ipv6/conf/mtu"}
	unknown := []string{
		"ipv4/conf/of_a_newer_kernel", "ipv4/neigh/gc_stale_time", "ipv6/conf/of_a_newer_kernel", "ipv6/conf/stable_secret",
		"ipv6/conf/ra_honor_pio_life", //nolint:misspell // the kernel's
		"ipv6/neigh/gc_stale_time",
	}
	net := New(root, netns.Current)
	now := func() (string, error) { return "digest", nil }
	fake(t, root, "nic0", "first", slices.Concat(known, unknown)...)
	if _, err := net.Snapshot("nic0", "digest", now); err != nil {
		t.Fatal(err)
	}
	fake(t, root, "nic1", "second", slices.Concat(known, unknown)...)
	copied := net // which shares what is remembered
	got, err := copied.Snapshot("nic1", "digest", nil)
	want := Settings{}
	for _, key := range known {
		want[key] = "first"
	}
	for _, key := range unknown {
		want[key] = "second"
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	clear(got)
	if again, err := net.Snapshot("nic1", "digest", nil); err != nil || !maps.Equal(again, want) {
		t.Errorf("a snapshot changed with another: %v, %v", again, err)
	}
	if all, err := net.Snapshot("nic1", "", nil); err != nil || all[known[0]] != "second" {
		t.Errorf("without a digest: %v, %v, want what the files say", all, err)
	}
}

// An incomplete snapshot is not cached: its missing settings would be missing of every
// NIC with that digest.
func TestPartsAreNotRemembered(t *testing.T) {
	root := t.TempDir()
	fake(t, root, "nic0", "0", "ipv4/conf/arp_ignore", "ipv6/conf/mtu")
	if err := os.Mkdir(filepath.Join(root, "net/ipv6/conf/nic0/hop_limit"), 0o700); err != nil { // which cannot be read
		t.Fatal(err)
	}
	net := New(root, netns.Current)
	got, err := net.Snapshot("nic0", "digest", func() (string, error) { return "digest", nil })
	if err != nil || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
	if conf := net.confCache.of("digest"); conf != nil {
		t.Errorf("remembered %v", conf)
	}
}

// However many kinds of NIC there are, and however many are read at a time.
func TestTheOldestIsForgotten(t *testing.T) {
	root := t.TempDir()
	fake(t, root, "nic0", "0", "ipv4/conf/arp_ignore")
	net := New(root, netns.Current)
	read := func(digest string) {
		if _, err := net.Snapshot("nic0", digest, func() (string, error) { return digest, nil }); err != nil {
			t.Error(err)
		}
	}
	read("oldest")
	var wait sync.WaitGroup
	for i := range maxCachedConfs {
		for range 2 {
			wait.Go(func() { read(strconv.Itoa(i)) })
		}
	}
	wait.Wait()
	if net.confCache.of("oldest") != nil {
		t.Error("the oldest is still there")
	}
	for i := range maxCachedConfs {
		if net.confCache.of(strconv.Itoa(i)) == nil {
			t.Errorf("%d is forgotten", i)
		}
	}
	if len(net.confCache.byDigest) != maxCachedConfs || len(net.confCache.digests) != maxCachedConfs {
		t.Errorf("%d remembered, %d in order, want %d", len(net.confCache.byDigest), len(net.confCache.digests), maxCachedConfs)
	}
}
