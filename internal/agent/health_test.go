// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/metrics"
)

// What everybody may ask tells how the agent is, and nothing of pods.
func TestWhatEverybodyMayAsk(t *testing.T) {
	a := &agent{metrics: metrics.New()}
	a.health.waitFor("the kubelet")
	ask := func(method, path string) (int, string) {
		w := httptest.NewRecorder()
		a.newMux().ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w.Code, w.Body.String()
	}
	want := func(method, path string, code int, text string) {
		t.Helper()
		if got, said := ask(method, path); got != code || !strings.Contains(said, text) {
			t.Errorf("%s %s: %d %q, want %d with %q", method, path, got, said, code, text)
		}
	}
	want(http.MethodGet, HealthPath, http.StatusServiceUnavailable, "not ready: starting; waits for the kubelet")
	a.health.done()
	want(http.MethodGet, HealthPath, http.StatusOK, "ok")
	want(http.MethodGet, MetricsPath, http.StatusOK, "process_resident_memory_bytes")
	want(http.MethodPost, MetricsPath, http.StatusMethodNotAllowed, "")
	want(http.MethodGet, VerifyPath, http.StatusNotFound, "")
	want(http.MethodGet, "/debug/pprof/", http.StatusNotFound, "")
}
