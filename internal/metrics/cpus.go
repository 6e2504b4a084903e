// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// CPUs is what a node's CPUs are for.
type CPUs struct {
	// Nodes counts them by NUMA node and state.
	Nodes map[string]map[string]int
	// Claims counts claims by how many CPUs they hold.
	Claims map[int]int
}

// CPUsFrom sets what reads the use of the CPUs at each scrape: from the journal,
// which two agents may share.
func (m *Metrics) CPUsFrom(read func() CPUs) {
	if m == nil {
		return
	}
	m.cpus.set(read)
}

// cpus collects two gauges, read from their source at each scrape.
type cpus struct {
	nodes, claims *prometheus.Desc
	source[CPUs]
}

func newCPUs() *cpus {
	return &cpus{
		nodes:  prometheus.NewDesc(nodeCPUs.Name, nodeCPUs.Help, nodeCPUs.Labels, nil),
		claims: prometheus.NewDesc(cpusPerClaim.Name, cpusPerClaim.Help, cpusPerClaim.Labels, nil),
	}
}

// Describe is part of prometheus.Collector.
func (c *cpus) Describe(out chan<- *prometheus.Desc) {
	out <- c.nodes
	out <- c.claims
}

// Collect is part of prometheus.Collector.
func (c *cpus) Collect(out chan<- prometheus.Metric) {
	now, served := c.now()
	if !served {
		return
	}
	for node, states := range now.Nodes {
		for state, n := range states {
			out <- prometheus.MustNewConstMetric(c.nodes, prometheus.GaugeValue, float64(n), node, state)
		}
	}
	for size, n := range now.Claims {
		out <- prometheus.MustNewConstMetric(c.claims, prometheus.GaugeValue, float64(n), strconv.Itoa(size))
	}
}
