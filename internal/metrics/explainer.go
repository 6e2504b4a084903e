// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const explainerPrefix = "plumbline_explainer_"

var (
	podsWaiting = Definition{explainerPrefix + "waiting_pods", gauge, []string{"verdict"}, "Pods that wait for their claims, by the last answer: fits, does not fit, aborts, allocated or unknown."}
	podEvents   = Definition{explainerPrefix + "events_total", counter, nil, "Events that tell a pod why its claims cannot be allocated, repeated ones included."}
	lookSeconds = Definition{explainerPrefix + "look_seconds", histogram, nil, "Time that the answers for all pods whose turn it was took."}
)

// ExplainerDefinitions lists the metrics of plumbline-operator in the order of the
// documentation.
func ExplainerDefinitions() []Definition {
	return []Definition{podsWaiting, podEvents, lookSeconds}
}

// Explainer are the figures of plumbline-operator. A nil Explainer counts nothing.
type Explainer struct {
	registry *prometheus.Registry // of the explainer's own
	all      prometheus.Gatherer
	waiting  *prometheus.GaugeVec
	events   prometheus.Counter
	looks    prometheus.Observer
}

// NewExplainer returns figures that are all zero.
func NewExplainer() *Explainer {
	r := prometheus.NewRegistry()
	return &Explainer{
		registry: r, all: withProcess(r), waiting: newGauge(r, podsWaiting), events: newCounter(r, podEvents).WithLabelValues(),
		looks: newHistogram(r, lookSeconds).WithLabelValues(),
	}
}

// Handler answers with all figures in Prometheus' text format.
func (e *Explainer) Handler() http.Handler { return handler(e.all) }

// Waiting says how many pods wait, by verdict; verdicts that are not named have
// none.
func (e *Explainer) Waiting(pods map[string]int) {
	if e == nil {
		return
	}
	e.waiting.Reset()
	for verdict, n := range pods {
		e.waiting.WithLabelValues(verdict).Set(float64(n))
	}
}

// Notified counts an event.
func (e *Explainer) Notified() {
	if e != nil {
		e.events.Inc()
	}
}

// Evaluated times one pass.
func (e *Explainer) Evaluated(since time.Time) {
	if e != nil {
		e.looks.Observe(time.Since(since).Seconds())
	}
}
