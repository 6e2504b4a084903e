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

// HoldingsFrom says where to ask, at each reading, what each driver's claims
// hold. The journal knows, and two agents may share it during an upgrade: a
// figure kept beside it would drift. What cannot be read is left out.
func (m *Metrics) HoldingsFrom(ask func() map[string]Holding) {
	if m == nil {
		return
	}
	m.holdings.set(ask)
}

// holdings collects two gauges by asking.
type holdings struct {
	claims, devices *prometheus.Desc
	asked[map[string]Holding]
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
