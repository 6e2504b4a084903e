// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// readers is how many may ask at once; each costs memory while it is answered.
const readers = 3

// Handler answers with all figures in Prometheus' text format. What cannot be
// collected is left out of an answer rather than failing it.
func (m *Metrics) Handler() http.Handler { return handler(m.registry) }

func handler(r *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{
		DisableCompression: true, MaxRequestsInFlight: readers, ErrorHandling: promhttp.ContinueOnError,
	})
}
