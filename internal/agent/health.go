// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/metrics"
	"plumbline.dev/plumbline/internal/metrics/endpoint"
	"plumbline.dev/plumbline/internal/unixhttp"
)

// Paths of the agent's own socket.
const (
	// HealthPath answers "ok", or why no claim can be prepared.
	HealthPath = "/healthz"
	// MetricsPath answers with the agent's figures.
	MetricsPath = endpoint.Path
)

// serveSocket answers the agent's own commands: healthz by probes, metrics by
// people.
func (a *agent) serveSocket(ctx context.Context) error {
	mux := a.newMux()
	mux.HandleFunc("GET "+VerifyPath, a.answerVerify)
	mux.Handle("GET "+DevicePluginsPath, a.kubelet())
	return unixhttp.Serve(ctx, a.Socket, mux)
}

// newMux has the paths that also --bind-address may serve.
func (a *agent) newMux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+HealthPath, func(w http.ResponseWriter, _ *http.Request) {
		if err := a.ready(); err != nil {
			http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n") // the asker may have left
	})
	mux.Handle("GET "+MetricsPath, a.metrics.Handler())
	return mux
}

// serveMetrics answers scrapers where addresses were given.
func (a *agent) serveMetrics(ctx context.Context) error {
	if a.BindAddress != "" {
		endpoint.ServePlain(ctx, a.BindAddress, a.newMux())
	}
	if a.MetricsAddress == "" {
		return nil
	}
	return endpoint.Serve(ctx, endpoint.Options{
		Address: a.MetricsAddress, CertDir: a.MetricsCertDir, Name: a.NodeName, Client: a.client,
	}, a.metrics.Handler())
}

// countHoldings has what claims hold counted at each scrape.
// The preparers are all there by now.
func (a *agent) countHoldings(ctx context.Context) {
	preparers := slices.Clone(a.preparers)
	a.metrics.HoldingsFrom(func() map[string]metrics.Holding {
		held := map[string]metrics.Holding{}
		for _, p := range preparers {
			records, _, err := p.Journal.List(p.Name())
			if err != nil {
				klog.FromContext(ctx).Error(err, "held devices are not counted", "driver", p.Name())
				continue
			}
			var h metrics.Holding
			for _, r := range records {
				if r.BootID == p.BootID {
					h.Claims++
					h.Devices += len(r.Devices)
				}
			}
			held[p.Name()] = h
		}
		return held
	})
}

// progress is how far the start has come, for the probes.
type progress struct {
	mu      sync.Mutex
	waiting string
	started bool
}

func (p *progress) waitFor(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = what
}

func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.started = true
}

func (p *progress) err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started {
		return nil
	}
	return errors.New("starting; waits for " + p.waiting)
}

// ready says why no claim can be prepared, or nil.
func (a *agent) ready() error {
	if err := a.health.err(); err != nil {
		return err
	}
	if a.needsRuntime() {
		return a.runtime.Ready()
	}
	return nil
}

// sweeper gives back what claims hold that are gone.
func (a *agent) sweeper() *claims.OrphanSweeper {
	return &claims.OrphanSweeper{
		Client: a.client, Preparers: a.preparers, Ready: a.ready, Wanted: a.wanted,
		Lives: func(pod types.UID) bool { return a.pods.Get(pod) != nil || a.runtime.Runs(pod) },
	}
}

func (a *agent) needsRuntime() bool {
	for _, p := range a.preparers {
		if p.NeedsRuntime() {
			return true
		}
	}
	return false
}
