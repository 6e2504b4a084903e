// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"os"
	"testing"

	"plumbline.dev/plumbline/internal/host/hosttest"
)

// A claim's whole life leaves no descriptor open, also where a step fails: an agent
// serves thousands of them.
func TestNoDescriptorStaysOpen(t *testing.T) {
	l := newLab(t)
	pod := hosttest.NewNamespace(t)
	pod.Run(t, "ip link add taken type veth peer name other")
	fails := l.plan(t, claim(`{"interface": {"name": "taken"}}`, "nic1"))
	life := func() {
		r := l.plan(t, claim(`{"interface": {"name": "net1", "mtu": 1300}, "ethtool": {"features": {"tso": false}}}`, "nic0"))
		r, err := l.driver.Stage(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		l.attach(t, r, pod)
		if _, err := l.driver.Attach(t.Context(), fails, pod.Path()); err == nil {
			t.Fatal("a name that is taken is no error")
		}
		if err := l.driver.Detach(t.Context(), r, pod.Path()); err != nil {
			t.Fatal(err)
		}
		if err := l.driver.Unstage(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	life() // what is opened once is open now
	before := open()
	for range 5 {
		life()
	}
	if after := open(); after > before {
		t.Errorf("%d descriptors before, %d after five claims", before, after)
	}
}
