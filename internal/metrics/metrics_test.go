// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"errors"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
)

var errBroken = errors.New("broken")

// used returns figures in which every metric has counted something.
func used() *Metrics {
	m := New()
	long := time.Now().Add(-time.Second)
	for _, step := range []string{StepLock, StepRead, StepPlan, StepConfine, StepStage, StepCDI, StepTotal} {
		m.Prepared("dra.net", step, long)
	}
	m.Attached("dra.net", long, nil)
	m.Attached("dra.net", long, errBroken)
	m.Detached("dra.net", long, nil)
	m.Restored("dra.net", nil)
	m.Repaired("dra.net", errBroken)
	m.Claim("dra.cpu", CallPrepare, "")
	m.Claim("dra.cpu", CallPrepare, StepPlan)
	m.CPUsFrom(func() CPUs {
		return CPUs{Nodes: map[string]map[string]int{"0": {"allocated": 2, "available": 5}}, Claims: map[int]int{2: 1}}
	})
	m.Placed(3)
	m.Lifted(2)
	m.PutBack(true)
	m.Refused(HookPrepare)
	m.Refused(HookPrepare)
	m.Published("dra.net", 9, 1)
	m.HostChecked("links", "functional", 2)
	m.Resynced()
	m.Joined()
	m.StatusFailed()
	m.Verified(time.Now(), map[string]int{"Aligned": 3}, 1)
	m.Misaligned("CPUsWrong")
	m.HoldingsFrom(func() map[string]Holding { return map[string]Holding{"dra.net": {Claims: 2, Devices: 3}} })
	return m
}

func gathered(t *testing.T, m *Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*dto.MetricFamily{}
	for _, f := range families {
		byName[f.GetName()] = f
	}
	return byName
}

// TestDefinitionsAreTheRegistry holds the list, from which the documentation
// is made, to what is really registered.
func TestDefinitionsAreTheRegistry(t *testing.T) {
	families := gathered(t, used())
	for _, d := range Definitions() {
		f, ok := families[d.Name]
		if !ok {
			t.Errorf("%s: defined, not registered or never counted", d.Name)
			continue
		}
		delete(families, d.Name)
		if got := strings.ToLower(f.GetType().String()); got != d.Kind {
			t.Errorf("%s: is a %s, defined as %s", d.Name, got, d.Kind)
		}
		if f.GetHelp() != d.Help {
			t.Errorf("%s: help %q, defined as %q", d.Name, f.GetHelp(), d.Help)
		}
		var labels []string
		for _, pair := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, pair.GetName())
		}
		want := slices.Clone(d.Labels)
		slices.Sort(want)
		if diff := cmp.Diff(want, labels); diff != "" {
			t.Errorf("%s: labels (-defined +registered):\n%s", d.Name, diff)
		}
	}
	for name := range families {
		t.Errorf("%s: registered, not defined", name)
	}
}

func TestNames(t *testing.T) {
	for _, d := range Definitions() {
		if !strings.HasPrefix(d.Name, prefix) {
			t.Errorf("%s: want the prefix %s", d.Name, prefix)
		}
		if got := strings.HasSuffix(d.Name, "_total"); got != (d.Kind == counter) {
			t.Errorf("%s: a %s; counters, and only they, end in _total", d.Name, d.Kind)
		}
		if got := strings.HasSuffix(d.Name, "_seconds"); got != (d.Kind == histogram) {
			t.Errorf("%s: a %s; histograms are in seconds", d.Name, d.Kind)
		}
		if !strings.HasSuffix(d.Help, ".") {
			t.Errorf("%s: help %q is no sentence", d.Name, d.Help)
		}
	}
}

func TestFigures(t *testing.T) {
	answer := httptest.NewRecorder()
	used().Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	text := answer.Body.String()
	for _, line := range []string{
		`plumbline_agent_attach_seconds_count{driver="dra.net",result="ok"} 1`,
		`plumbline_agent_attach_seconds_count{driver="dra.net",result="error"} 1`,
		`plumbline_agent_attach_seconds_bucket{driver="dra.net",result="ok",le="0.5"} 0`,
		`plumbline_agent_attach_seconds_bucket{driver="dra.net",result="ok",le="60"} 1`,
		`plumbline_agent_detach_seconds_count{driver="dra.net",result="ok"} 1`,
		`plumbline_agent_prepare_seconds_count{driver="dra.net",step="stage"} 1`,
		`plumbline_agent_restores_total{driver="dra.net",result="ok"} 1`,
		`plumbline_agent_repairs_total{driver="dra.net",result="error"} 1`,
		`plumbline_agent_hook_refusals_total{hook="Prepare"} 2`,
		`plumbline_agent_publish_writes_total{driver="dra.net"} 1`,
		`plumbline_agent_devices_published{driver="dra.net"} 9`,
		`plumbline_agent_devices_unhealthy{driver="dra.net"} 1`,
		`plumbline_agent_claims_prepared{driver="dra.net"} 2`,
		`plumbline_agent_devices_held{driver="dra.net"} 3`,
		`plumbline_agent_netlink_resyncs_total 1`,
		`plumbline_agent_runtime_connections_total 1`,
		`plumbline_agent_status_write_failures_total 1`,
		`plumbline_agent_verified_pods{verdict="Aligned"} 3`,
		`plumbline_agent_misalignments_total{reason="CPUsWrong"} 1`,
		`plumbline_agent_verify_seconds_count 1`,
		"# TYPE process_resident_memory_bytes gauge",
		"# TYPE process_cpu_seconds_total counter",
		"# TYPE process_open_fds gauge",
		"# TYPE go_goroutines gauge",
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

func TestCountersWithoutLabelsStartAtZero(t *testing.T) {
	families := gathered(t, New())
	for _, d := range []Definition{netlinkResyncs, runtimeJoins, statusFailures} {
		if families[d.Name] == nil {
			t.Errorf("%s: absent before the first event, so that its first increase is invisible", d.Name)
		}
	}
}

func TestNilCountsNothing(*testing.T) {
	var m *Metrics
	m.Prepared("d", StepTotal, time.Now())
	m.Attached("d", time.Now(), nil)
	m.Detached("d", time.Now(), nil)
	m.Restored("d", nil)
	m.Repaired("d", nil)
	m.Refused(HookUnprepare)
	m.Published("d", 1, 0)
	m.Resynced()
	m.Joined()
	m.StatusFailed()
	m.HoldingsFrom(nil)
}

func TestConcurrentUse(t *testing.T) {
	m := New()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			m.Attached("dra.net", time.Now(), nil)
			m.HoldingsFrom(func() map[string]Holding { return nil })
			_, _ = m.registry.Gather()
		})
	}
	group.Wait()
	if got := gathered(t, m)[attachSeconds.Name].GetMetric()[0].GetHistogram().GetSampleCount(); got != 8 {
		t.Errorf("%d attachments counted, want 8", got)
	}
}
