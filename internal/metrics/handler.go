// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// readers is how many may ask at once; each costs memory while it is answered.
const readers = 3

// Handler answers with all figures in Prometheus' text format. What cannot be
// collected is left out of an answer rather than failing it.
func (m *Metrics) Handler() http.Handler { return handler(m.all) }

// withProcess adds to the figures of a program those that every program of its
// language has: process_ and go_.
func withProcess(own *prometheus.Registry) prometheus.Gatherer {
	standard := prometheus.NewRegistry()
	standard.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector())
	return prometheus.Gatherers{own, standard}
}

func handler(all prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(all, promhttp.HandlerOpts{
		DisableCompression: true, MaxRequestsInFlight: readers, ErrorHandling: promhttp.ContinueOnError,
	})
}
