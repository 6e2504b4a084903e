// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package addressblocks

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	nets "plumbline.dev/plumbline/api/net/v1alpha1"
	"plumbline.dev/plumbline/internal/driver/netdev"
)

// BenchmarkAddressBesideThousand prepares a claim that takes an address of a pool on a node on
// which a thousand claims have one, by an agent that has read their records. The API server is
// asked for none.
func BenchmarkAddressBesideThousand(b *testing.B) {
	const crowd, leastRounds = 1000, 200
	c := newCluster(b, *seed, nets.NetworkAddressPoolSpec{Subnets: []nets.AddressSubnet{{CIDR: "10.77.0.0/16", BlockSize: 20}}}, "node-a")
	c.carve()
	n := c.nodes[0]
	n.hear()
	crowded(b, n, crowd)
	asked := c.api.asked
	var took []time.Duration
	round := func() {
		claim := fromFabric(fmt.Sprint("next", len(took)), n.name)
		start := time.Now()
		if err := n.prepare(claim, 0); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
		if err := n.unprepare(claim, 0); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		round()
	}
	for len(took) < leastRounds {
		round()
	}
	slices.Sort(took)
	at := func(share float64) float64 { return float64(took[int(share*float64(len(took)-1))].Nanoseconds()) / 1e6 }
	b.ReportMetric(at(0.5), "ms-p50")
	b.ReportMetric(at(0.99), "ms-p99")
	b.ReportMetric(float64(c.api.asked-asked)/float64(len(took)), "API-calls")
}

// crowded has a node hold as many claims: copies of the record of one, with other addresses.
func crowded(b *testing.B, n *faultyNode, claims int) {
	b.Helper()
	if err := n.prepare(fromFabric("first", n.name), 0); err != nil {
		b.Fatal(err)
	}
	r, err := n.records.Get(netdev.Name, "first")
	if err != nil {
		b.Fatal(err)
	}
	addresses, err := netdev.Addresses(r)
	if err != nil {
		b.Fatal(err)
	}
	plan, next := string(r.Devices[0].Plan), netip.MustParsePrefix(n.blockOf(addresses[0]).Ranges[0]).Addr()
	for i := 1; i < claims; i++ {
		if next = next.Next(); next == addresses[0] {
			next = next.Next()
		}
		r.Claim.UID = types.UID(fmt.Sprint("c", i))
		r.Devices[0].Plan = []byte(strings.ReplaceAll(plan, `"`+addresses[0].String()+`/`, `"`+next.String()+`/`))
		if err := n.records.Put(r); err != nil {
			b.Fatal(err)
		}
	}
	if held := n.recorded(); len(held) != claims {
		b.Fatalf("%d claims are held, want %d", len(held), claims)
	}
}
