// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/host/hosttest"
)

// However many links, addresses and routes a pod with NET_ADMIN makes, attaching again
// and detaching take the agent no more memory.
func TestCrowdedPod(t *testing.T) {
	l := newLab(t)
	l.host.Run(t, busy)
	before := look(t, l.host)
	pod := hosttest.NewNamespace(t)
	pod.Run(t, quiet)
	r := l.plan(t, claim(`{"routes": [{"destination": "10.60.0.0/16", "gateway": "10.44.0.1"}]}`, "nic0"))
	l.attach(t, r, pod)
	var b strings.Builder
	for i := range 200 {
		fmt.Fprintf(&b, "ip link add a%[1]d type veth peer name b%[1]d\n", i)
	}
	for i := range 1500 {
		fmt.Fprintf(&b, "ip address add fd07::%x/128 dev lo nodad\n", i+1)
	}
	for i := range 1500 {
		fmt.Fprintf(&b, "ip route add 10.2.%d.%d dev lo\n", i>>8, i&255)
	}
	pod.Run(t, b.String())
	const most = 2 << 20
	again := allocated(func() { l.attach(t, r, pod) })
	home := allocated(func() {
		if err := l.driver.Detach(t.Context(), r, pod.Path()); err != nil {
			t.Error(err)
		}
	})
	if again > most || home > most {
		t.Errorf("attaching again allocated %d bytes and detaching %d, want at most %d", again, home, most)
	}
	expect(t, "the host", before, l.host)
}

// allocated is how many bytes fn allocates, garbage included.
func allocated(fn func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
