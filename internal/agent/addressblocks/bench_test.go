// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package addressblocks

import (
	"fmt"
	"slices"
	"testing"
	"time"

	nets "plumbline.dev/plumbline/api/net/v1alpha1"
)

// BenchmarkAddressBesideThousand prepares a claim that takes an address of a pool on a node on
// which a thousand claims have one, by an agent that has read their records. The API server is
// asked for none.
func BenchmarkAddressBesideThousand(b *testing.B) {
	const crowd, leastRounds = 1000, 200
	c := newCluster(b, nets.NetworkAddressPoolSpec{Subnets: []nets.AddressSubnet{{CIDR: "10.77.0.0/16", BlockSize: 20}}}, "node-a")
	c.carve()
	n := c.nodes[0]
	n.hear()
	for i := range crowd {
		if err := n.prepare(fromFabric(fmt.Sprint("c", i), n.name), 0); err != nil {
			b.Fatal(err)
		}
	}
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
