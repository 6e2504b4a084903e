// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explainer

import (
	"context"
	"fmt"
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
)

// Reason is that of the events.
const Reason = "ClaimsCannotBeAllocated"

// CheckGates refuses feature gates that cannot be parsed.
func CheckGates(featureGates string) error {
	_, err := allocation.OverrideGates(allocation.Gates{}, allocation.NewestMinor, featureGates)
	return err
}

// Options are what the controller is told.
type Options struct {
	Client kubernetes.Interface
	Events *kube.Events
	// FeatureGates are those of the scheduler that differ from the defaults of the
	// cluster's version, such as "DRAListTypeAttributes=true".
	FeatureGates string
	Metrics      *metrics.Explainer
}

// Run explains until ctx ends.
func Run(ctx context.Context, o Options) error {
	minor := versionOf(ctx, o.Client)
	if ctx.Err() != nil {
		return nil
	}
	gates, err := allocation.OverrideGates(allocation.DefaultGates(minor), minor, o.FeatureGates)
	if err != nil {
		return fmt.Errorf("feature gates: %w", err)
	}
	watched, err := newObjects(o.Client)
	if err != nil {
		return err
	}
	if !watched.run(ctx) {
		return nil
	}
	klog.FromContext(ctx).Info("explaining pods that wait for their claims", "kubernetes", fmt.Sprintf("1.%d", minor))
	e := &explainer{
		objects: watched, minor: minor, gates: gates, said: o.FeatureGates, metrics: o.Metrics, schedule: retrySchedule{now: time.Now},
		events: flowcontrol.NewTokenBucketPassiveRateLimiter(eventsPerSecond, eventsAtOnce),
		confirm: func(ctx context.Context, s *explain.Subject) (bool, error) {
			return confirm(ctx, o.Client, s)
		},
		notify: func(p *corev1.Pod, text string) {
			o.Events.Pod(p.Namespace, driver.PodRef{UID: p.UID, Name: p.Name}, true, Reason, text)
		},
	}
	e.run(ctx)
	return nil
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
