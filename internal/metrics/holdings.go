// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Holding is what the prepared claims of one driver hold.
type Holding struct {
	Claims, Devices int
}

// HoldingsFrom sets what reads, at each scrape, what each driver's claims hold:
// from the journal, which two agents may share during an upgrade, so that a figure
// kept beside it would drift. What cannot be read is left out.
func (m *Metrics) HoldingsFrom(read func() map[string]Holding) {
	if m == nil {
		return
	}
	m.holdings.set(read)
}

// holdings collects two gauges, read from their source at each scrape.
type holdings struct {
	claims, devices *prometheus.Desc
	source[map[string]Holding]
}

func newHoldings() *holdings {
	return &holdings{
		claims:  prometheus.NewDesc(claimsPrepared.Name, claimsPrepared.Help, claimsPrepared.Labels, nil),
		devices: prometheus.NewDesc(devicesHeld.Name, devicesHeld.Help, devicesHeld.Labels, nil),
	}
}

// Describe is part of prometheus.Collector.
func (h *holdings) Describe(out chan<- *prometheus.Desc) {
	out <- h.claims
	out <- h.devices
}

// Collect is part of prometheus.Collector.
func (h *holdings) Collect(out chan<- prometheus.Metric) {
	now, _ := h.now()
	for driver, held := range now {
		out <- prometheus.MustNewConstMetric(h.claims, prometheus.GaugeValue, float64(held.Claims), driver)
		out <- prometheus.MustNewConstMetric(h.devices, prometheus.GaugeValue, float64(held.Devices), driver)
	}
}
