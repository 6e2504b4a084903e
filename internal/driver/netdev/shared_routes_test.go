// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"testing"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/host/hosttest"
)

// Routes through three NICs, of which claims take two, one after the other.
const shared = `
	ip address add 10.0.0.1/24 dev nic0
	ip link set nic0 up
	ip link set nic1 up
	ip link set nic2 up
	ip route add 172.16.0.0/16 nexthop dev nic0 weight 2 nexthop dev nic1
	ip route add 172.17.0.0/16 nexthop dev nic0 nexthop dev nic1 nexthop dev nic2
	ip route add 172.18.0.0/16 dev nic1 src 10.0.0.1
	ip -6 route add fd20::/48 nexthop via fe80::1 dev nic0 nexthop via fe80::2 dev nic1
	ip route add 172.19.0.0/16 dev nic0`

func TestRoutesSharedBetweenClaims(t *testing.T) {
	for name, order := range map[string]struct {
		planBothFirst bool
		first, second int
	}{
		"the first ends first":        {false, 0, 1},
		"the second ends first":       {false, 1, 0},
		"planned together, in order":  {true, 0, 1},
		"planned together, backwards": {true, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.host.Run(t, shared)
			before := look(t, l.host)
			pods := []*hosttest.Namespace{hosttest.NewNamespace(t), hosttest.NewNamespace(t)}
			m := l.machine(t)
			var records []driver.Record
			plan := func(device string) {
				r, err := l.driver.Plan(claim("", device), m, records)
				if err != nil {
					t.Fatal(err)
				}
				records = append(records, r)
			}
			plan("nic0")
			if order.planBothFirst {
				plan("nic1")
			}
			l.attach(t, records[0], pods[0])
			if !order.planBothFirst {
				plan("nic1")
			}
			l.attach(t, records[1], pods[1])
			for _, i := range []int{order.first, order.second} {
				if err := l.driver.Detach(t.Context(), records[i], pods[i].Path()); err != nil {
					t.Fatal(err)
				}
			}
			expect(t, "the host", before, l.host)
		})
	}
}
