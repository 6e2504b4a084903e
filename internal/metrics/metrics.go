// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the figures of one agent. Every method is safe for concurrent
// use; a nil Metrics counts nothing.
type Metrics struct {
	registry *prometheus.Registry // of the agent's own
	all      prometheus.Gatherer

	attach, detach, prepare                                               *prometheus.HistogramVec
	restores, repairs, pinRepairs, publishWrites, hookRefusals            *prometheus.CounterVec
	pinWrites, quotasLifted, netlinkResyncs, runtimeJoins, statusFailures prometheus.Counter
	devicesOffered, devicesTainted, hostFindings                          *prometheus.GaugeVec
	claimCalls                                                            *prometheus.CounterVec
	holdings                                                              *holdings
	cpus                                                                  *cpus
	verified                                                              *prometheus.GaugeVec
	misalignments                                                         *prometheus.CounterVec
	verify                                                                prometheus.Observer
	unanswered                                                            prometheus.Gauge
}

// New returns figures that are all zero.
func New() *Metrics {
	r := prometheus.NewRegistry()
	m := &Metrics{
		registry: r, all: withProcess(r),
		attach: newHistogram(r, attachSeconds), detach: newHistogram(r, detachSeconds), prepare: newHistogram(r, prepareSeconds),
		restores: newCounter(r, restores), repairs: newCounter(r, repairs), pinRepairs: newCounter(r, pinRepairs),
		pinWrites:     newCounter(r, pinWrites).WithLabelValues(),
		quotasLifted:  newCounter(r, quotasLifted).WithLabelValues(),
		publishWrites: newCounter(r, publishWrites), hookRefusals: newCounter(r, hookRefusals),
		netlinkResyncs: newCounter(r, netlinkResyncs).WithLabelValues(),
		runtimeJoins:   newCounter(r, runtimeJoins).WithLabelValues(),
		statusFailures: newCounter(r, statusFailures).WithLabelValues(),
		devicesOffered: newGauge(r, devicesOffered), devicesTainted: newGauge(r, devicesTainted), hostFindings: newGauge(r, hostFindings),
		claimCalls: newCounter(r, claimCalls), holdings: newHoldings(), cpus: newCPUs(),
		verified: newGauge(r, verifiedPods), misalignments: newCounter(r, misalignments),
		verify: newHistogram(r, verifySeconds).WithLabelValues(), unanswered: newGauge(r, unansweredPods).WithLabelValues(),
	}
	r.MustRegister(m.holdings, m.cpus)
	return m
}

// Prepared times one step of preparing a claim.
func (m *Metrics) Prepared(driver, step string, since time.Time) {
	if m != nil {
		m.prepare.WithLabelValues(driver, step).Observe(time.Since(since).Seconds())
	}
}

// Claim counts a call of the kubelet; reason is empty where it was answered.
func (m *Metrics) Claim(driver, call, reason string) {
	if m == nil {
		return
	}
	result := "ok"
	if reason != "" {
		result = "error"
	}
	m.claimCalls.WithLabelValues(driver, call, result, reason).Inc()
}

// Attached times the attaching of one claim's devices.
func (m *Metrics) Attached(driver string, since time.Time, err error) {
	if m != nil {
		m.attach.WithLabelValues(driver, result(err)).Observe(time.Since(since).Seconds())
	}
}

// Detached times the bringing back of one claim's devices.
func (m *Metrics) Detached(driver string, since time.Time, err error) {
	if m != nil {
		m.detach.WithLabelValues(driver, result(err)).Observe(time.Since(since).Seconds())
	}
}

// Restored counts a claim whose devices were compared with the journal after
// they came back; err says what differs.
func (m *Metrics) Restored(driver string, err error) {
	if m != nil {
		m.restores.WithLabelValues(driver, result(err)).Inc()
	}
}

// Repaired counts a claim that lacked something; err says why it still does.
func (m *Metrics) Repaired(driver string, err error) {
	if m != nil {
		m.repairs.WithLabelValues(driver, result(err)).Inc()
	}
}

// Placed counts sets that were written into control groups.
func (m *Metrics) Placed(writes int) {
	if m != nil {
		m.pinWrites.Add(float64(writes))
	}
}

// Lifted counts quotas of CPU time that were taken away.
func (m *Metrics) Lifted(quotas int) {
	if m != nil {
		m.quotasLifted.Add(float64(quotas))
	}
}

// PutBack counts a container that somebody else had moved.
func (m *Metrics) PutBack(exclusive bool) {
	if m == nil {
		return
	}
	kind := "shared"
	if exclusive {
		kind = "exclusive"
	}
	m.pinRepairs.WithLabelValues(kind).Inc()
}

// Refused counts a call that was answered with an error.
func (m *Metrics) Refused(hook string) {
	if m != nil {
		m.hookRefusals.WithLabelValues(hook).Inc()
	}
}

// Published counts a change of what a driver offers, and remembers how much
// that is now.
func (m *Metrics) Published(driver string, devices, unhealthy int) {
	if m != nil {
		m.publishWrites.WithLabelValues(driver).Inc()
		m.devicesOffered.WithLabelValues(driver).Set(float64(devices))
		m.devicesTainted.WithLabelValues(driver).Set(float64(unhealthy))
	}
}

// HostChecked remembers what one check of the host found wrong. Every check has to be
// told of, as zero where there is nothing.
func (m *Metrics) HostChecked(check, severity string, wrong int) {
	if m != nil {
		m.hostFindings.WithLabelValues(check, severity).Set(float64(wrong))
	}
}

// Resynced counts a full look at the host after lost kernel events.
func (m *Metrics) Resynced() {
	if m != nil {
		m.netlinkResyncs.Inc()
	}
}

// Joined counts a connection to the container runtime.
func (m *Metrics) Joined() {
	if m != nil {
		m.runtimeJoins.Inc()
	}
}

// StatusFailed counts a write of claim status that will be tried again.
func (m *Metrics) StatusFailed() {
	if m != nil {
		m.statusFailures.Inc()
	}
}

// Verified counts the pods of one look by verdict. Verdicts that no pod has must
// be among them, as zero. unanswered is how many looks into pods were given up and
// wait to this day.
func (m *Metrics) Verified(since time.Time, pods map[string]int, unanswered int) {
	if m == nil {
		return
	}
	m.verify.Observe(time.Since(since).Seconds())
	m.unanswered.Set(float64(unanswered))
	for verdict, n := range pods {
		m.verified.WithLabelValues(verdict).Set(float64(n))
	}
}

// Misaligned counts a pod that was found misaligned.
func (m *Metrics) Misaligned(reason string) {
	if m != nil {
		m.misalignments.WithLabelValues(reason).Inc()
	}
}

func result(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}

func newHistogram(r prometheus.Registerer, d Definition) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: d.Name, Help: d.Help, Buckets: seconds}, d.Labels)
	r.MustRegister(v)
	return v
}

func newCounter(r prometheus.Registerer, d Definition) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, d.Labels)
	r.MustRegister(v)
	return v
}

func newGauge(r prometheus.Registerer, d Definition) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: d.Name, Help: d.Help}, d.Labels)
	r.MustRegister(v)
	return v
}
