// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"plumbline.dev/plumbline/internal/host/hosttest"
)

// manyRoutes are those of a NIC on a host that takes part in routing.
const manyRoutes = 4000

// BenchmarkRestoreRoutes brings a NIC back that had thousands of routes, half of
// them of IPv6 and behind gateways, a few through a second NIC as well. The pod
// takes none of them over, so that only the host's count.
func BenchmarkRestoreRoutes(b *testing.B) {
	l := &lab{host: hosttest.NewNamespace(b)}
	l.host.Run(b, quiet+`
		ip link add nic0 address 02:00:00:00:00:00 type veth peer name port0
		ip link add nic1 address 02:00:00:00:00:01 type veth peer name port1
		ip link set port0 up
		ip link set port1 up
		ip address add 10.33.0.2/24 dev nic0
		ip address add fd33::2/64 dev nic0 nodad
		ip link set nic0 up
		ip link set nic1 up
		ip -6 route add fd99::/64 nexthop via fe80::1 dev nic0 nexthop via fe80::2 dev nic1
		ip route add 172.20.0.0/24 nexthop dev nic0 weight 3 nexthop dev nic1`)
	l.host.Run(b, routeCommands(manyRoutes))
	l.driver = l.newDriver(b)
	record := l.plan(b, claim(`{"interface": {"addressing": "unnumbered"}}`, "nic0"))
	pod := hosttest.NewNamespace(b)
	var spent time.Duration
	rounds := 0
	for b.Loop() {
		if _, err := l.driver.Attach(b.Context(), record, pod.Path()); err != nil {
			b.Fatal(err)
		}
		start := time.Now()
		if err := l.driver.Detach(b.Context(), record, pod.Path()); err != nil {
			b.Fatal(err)
		}
		spent += time.Since(start)
		rounds++
	}
	b.ReportMetric(float64(spent)/float64(rounds), "ns/op")
	got := strings.Count(l.host.Run(b, "ip -4 route show proto static\nip -6 route show proto static"), "\n")
	if got < manyRoutes {
		b.Errorf("the host has %d routes, want at least %d", got, manyRoutes)
	}
}

// routeCommands make so many routes through nic0, half of them of IPv6.
func routeCommands(n int) string {
	var four, six strings.Builder
	for i := range n / 2 {
		fmt.Fprintf(&four, "ip route add 10.64.%d.%d via 10.33.0.1 dev nic0 proto static\n", i>>8, i&0xff)
		fmt.Fprintf(&six, "ip -6 route add fd64::%x via fd33::1 dev nic0 proto static\n", i+1)
	}
	return four.String() + six.String()
}
