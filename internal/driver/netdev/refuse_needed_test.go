// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/host/hosttest"
)

// The host may need a NIC since the inventory's scan.
func TestPlanRefusesWhatTheHostNeeds(t *testing.T) {
	l := newLab(t)
	l.host.Run(t, `
		ip address add 10.0.0.2/24 dev nic0
		ip address add fd00::2/64 dev nic0 nodad
		ip link set nic0 up`)
	for _, c := range []struct{ add, remove, want string }{
		{"ip route add default via 10.0.0.1 dev nic0", "ip route del default", "interface nic0 carries the default route (0.0.0.0/0 via 10.0.0.1 table 254 proto 3): it is the node's"},
		{"ip route add default via 10.0.0.1 dev nic0 table default", "ip route del default table default", "table 253 proto 3): it is the node's"},
		{"ip -6 route add default via fd00::1 dev nic0 proto ra", "ip -6 route del default", "interface nic0 carries the default route (::/0 via fd00::1 table 254 proto 9"},
		{"ip link add upper0 link nic0 type macvlan", "ip link del upper0", "interface nic0 carries macvlan upper0, which would be lost: remove that first"},
		{"ip link add flannel.1 type vxlan id 1 dstport 8472 dev nic0", "ip link del flannel.1", "interface nic0 carries vxlan flannel.1, which would be lost: remove that first"},
	} {
		l.host.Run(t, c.add)
		if _, err := l.driver.Plan(claim("", "nic0"), l.machine(t), nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v\nwant %s", c.add, err, c.want)
		}
		l.host.Run(t, c.remove)
	}
	l.host.Run(t, "ip route add default via 10.0.0.1 dev nic0 table 77")
	r := l.plan(t, claim("", "nic0"))

	// Undoing must not be kept from its end by a route that came meanwhile.
	l.host.Run(t, "ip route add default via 10.0.0.1 dev nic0")
	if err := l.driver.Detach(t.Context(), r, ""); err != nil {
		t.Error(err)
	}
}

// A VXLAN that was created after Prepare would silently be deleted by the move.
func TestAttachRefusesALinkOnTop(t *testing.T) {
	l := newLab(t)
	l.host.Run(t, busy)
	pod := hosttest.NewNamespace(t)
	r := l.plan(t, claim("", "nic1", "nic0"))
	l.host.Run(t, "ip link add vxlan.calico type vxlan id 1 dstport 8472 dev nic0")
	before := look(t, l.host)
	_, err := l.driver.Attach(t.Context(), r, pod.Path())
	want := "device nic0: interface nic0 carries vxlan vxlan.calico, which would be lost: remove that first"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v\nwant  %s", err, want)
	}
	expect(t, "the host", before, l.host)
	l.host.Run(t, "ip link delete vxlan.calico")
	l.attach(t, r, pod)
}
