// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"plumbline.dev/plumbline/internal/metrics"
	"plumbline.dev/plumbline/internal/metrics/endpoint"
	"plumbline.dev/plumbline/internal/unixhttp"
)

// Paths of the program's own socket.
const (
	// HealthPath answers "ok" and whether this replica leads, or what is waited for.
	HealthPath = "/healthz"
	// MetricsPath answers with the figures.
	MetricsPath = endpoint.Path
)

// readiness is how far the start has come.
type readiness struct {
	connected, leads atomic.Bool
}

// follow is ready once the watches of a manager have begun. A replica that does not
// lead is as ready as the one that does.
func (r *readiness) follow(ctx context.Context, m manager.Manager) {
	go func() {
		r.connected.Store(m.GetCache().WaitForCacheSync(ctx))
		select {
		case <-m.Elected():
			r.leads.Store(true)
		case <-ctx.Done():
		}
	}()
}

func (r *readiness) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	switch {
	case !r.connected.Load():
		http.Error(w, "not ready: starting; waits for the API server's lists", http.StatusServiceUnavailable)
	case r.leads.Load():
		_, _ = io.WriteString(w, "ok: leads\n") // the asker may have left
	default:
		_, _ = io.WriteString(w, "ok: another replica leads\n")
	}
}

// serve answers the program's own commands, and scrapers where an address was given.
func serve(ctx context.Context, o Options, client kubernetes.Interface, figures *metrics.Explainer, state *readiness) error {
	mux := http.NewServeMux()
	mux.Handle("GET "+HealthPath, state)
	mux.Handle("GET "+MetricsPath, figures.Handler())
	if err := unixhttp.Serve(ctx, o.Socket, mux); err != nil {
		return err
	}
	if o.MetricsAddress == "" {
		return nil
	}
	return endpoint.Serve(ctx, endpoint.Options{
		Address: o.MetricsAddress, CertDir: o.MetricsCertDir, Name: Name, Client: client,
	}, figures.Handler())
}
