// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package maddr

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/host/hosttest"
)

func TestStaticAddresses(t *testing.T) {
	ns := hosttest.NewNamespace(t)
	hosttest.Veth(t, ns, "nic0", ns, "nic1")
	ns.Run(t, "ip link set nic0 up") // the kernel joins groups of its own
	want := []string{"01:00:5e:00:00:05", "33:33:00:00:12:34"}
	for range 2 {
		if err := Add(ns.Fd(), "nic0", want); err != nil {
			t.Fatal(err)
		}
	}
	list, err := Static(ns.Fd())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]string{want}, slices.Collect(maps.Values(list))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, address := range want { // ip ends with the first line of several
		ns.Run(t, "ip maddr del "+address+" dev nic0")
	}
	if list, err = Static(ns.Fd()); err != nil || len(list) != 0 {
		t.Errorf("%v, %v after they were deleted", list, err)
	}
	for name, addresses := range map[string][]string{"nic7": want, "nic0": {"everybody"}, strings.Repeat("n", 16): want} {
		if err := Add(ns.Fd(), name, addresses); err == nil {
			t.Errorf("interface %q took %q", name, addresses)
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"3 nic0 1 1": "has 4 words", "x nic0 1 1 01005e000005": "its ifindex", "3 nic0 1 1 0100x": "its address",
	} {
		if _, err := parse(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("3    nic0            1     1     01005e000005\n3    nic0            1     0     333300000001\n")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := parse(strings.NewReader(text))
		for index, addresses := range list {
			if err == nil && !slices.IsSorted(addresses) {
				t.Errorf("link %d has %q", index, addresses)
			}
		}
	})
}
