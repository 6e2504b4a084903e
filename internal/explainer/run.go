// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explainer

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/explain"
	"plumbline.dev/plumbline/internal/kube"
	"plumbline.dev/plumbline/internal/metrics"
	"plumbline.dev/plumbline/internal/metrics/endpoint"
	"plumbline.dev/plumbline/internal/unixhttp"
)

// Name is the program's, and that of its Deployment and ServiceAccount.
const Name = "plumbline-explainer"

// Reason is that of the events.
const Reason = "ClaimsCannotBeAllocated"

// Paths of the program's own socket.
const (
	// HealthPath answers "ok", or what is waited for.
	HealthPath = "/healthz"
	// MetricsPath answers with the figures.
	MetricsPath = endpoint.Path
)

// Options are what the program is told.
type Options struct {
	// Kubeconfig is empty inside a cluster.
	Kubeconfig string
	// FeatureGates are those of the scheduler that differ from the defaults of the
	// cluster's version, such as "DRAListTypeAttributes=true".
	FeatureGates string
	// Socket is where the program answers its own commands.
	Socket string
	// MetricsAddress is where figures are served to scrapers, ADDRESS:PORT; empty:
	// nowhere. MetricsCertDir holds tls.crt and tls.key for it; empty: the program
	// signs for itself.
	MetricsAddress, MetricsCertDir string
}

// DefaultOptions are those of a pod.
func DefaultOptions() Options { return Options{Socket: "/run/plumbline/explainer.sock"} }

// Run explains until ctx ends.
func Run(ctx context.Context, o Options) error {
	if _, err := allocation.OverrideGates(allocation.Gates{}, allocation.NewestMinor, o.FeatureGates); err != nil {
		return fmt.Errorf("--feature-gates: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	client, _, err := kube.ConnectAs(Name, o.Kubeconfig)
	if err != nil {
		stop()
		return err
	}
	events := kube.NewComponentEvents(ctx, Name, "")
	var serving sync.WaitGroup
	defer func() { stop(); serving.Wait() }()
	serving.Go(func() { events.Run(ctx, client) })
	figures := metrics.NewExplainer()
	var ready atomic.Bool
	if err := serve(ctx, o, client, figures, &ready); err != nil {
		return err
	}
	minor := versionOf(ctx, client)
	if ctx.Err() != nil {
		return nil
	}
	gates, err := allocation.OverrideGates(allocation.DefaultGates(minor), minor, o.FeatureGates)
	if err != nil {
		return fmt.Errorf("--feature-gates: %w", err)
	}
	watched, err := newObjects(client)
	if err != nil {
		return err
	}
	if !watched.run(ctx) {
		return nil
	}
	ready.Store(true)
	klog.FromContext(ctx).Info("explaining pods that wait for their claims", "kubernetes", fmt.Sprintf("1.%d", minor))
	e := &explainer{
		objects: watched, minor: minor, gates: gates, metrics: figures, schedule: retrySchedule{now: time.Now},
		events: flowcontrol.NewTokenBucketPassiveRateLimiter(eventsPerSecond, eventsAtOnce),
		confirm: func(ctx context.Context, s *explain.Subject) (bool, error) {
			return confirm(ctx, client, s)
		},
		notify: func(p *corev1.Pod, text string) {
			events.Pod(p.Namespace, driver.PodRef{UID: p.UID, Name: p.Name}, true, Reason, text)
		},
	}
	e.run(ctx)
	return nil
}

// serve answers the program's own commands, and scrapers where an address was
// given.
func serve(ctx context.Context, o Options, client kubernetes.Interface, figures *metrics.Explainer, ready *atomic.Bool) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+HealthPath, func(w http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			http.Error(w, "not ready: starting; waits for the API server's lists", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n") // the asker may have left
	})
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

// versionRetry is the time between two requests to an API server that is away.
const versionRetry = 5 * time.Second

// versionOf is the minor version of the cluster, which decides the scheduler's
// rules. Where it cannot be parsed, the newest rules are assumed.
func versionOf(ctx context.Context, client kubernetes.Interface) int {
	for {
		info, err := client.Discovery().ServerVersion()
		if err == nil {
			if v, err := version.ParseGeneric(info.GitVersion); err == nil && v.Major() == 1 {
				return int(v.Minor())
			}
			return allocation.NewestMinor
		}
		if ctx.Err() != nil {
			return allocation.NewestMinor
		}
		klog.FromContext(ctx).Error(err, "the API server does not say its version; asking again")
		sleep(ctx, versionRetry, nil)
	}
}
