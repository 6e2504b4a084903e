// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explainer

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/explain"
	"plumbline.dev/plumbline/internal/metrics"
)

const (
	// eventsPerSecond and eventsAtOnce are for all pods together.
	eventsPerSecond, eventsAtOnce = 1, 20
	// share is the part of the time that is spent on answers: one in so many.
	share = 20
	// pause is the least time between two passes.
	pause = time.Second
)

// explainer answers for the pods that wait.
type explainer struct {
	objects *objects
	// minor and gates are those of the cluster's scheduler.
	minor int
	gates allocation.Gates
	// said is what was said of feature gates (--feature-gates).
	said string
	// confirm asks the API server itself before notify makes an event.
	confirm  func(ctx context.Context, s *explain.Subject) (bool, error)
	notify   func(p *corev1.Pod, text string)
	events   flowcontrol.PassiveRateLimiter
	metrics  *metrics.Explainer
	schedule retrySchedule
}

// run evaluates the pods that are due, until ctx ends.
func (e *explainer) run(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		next := e.evaluateDue(ctx)
		// At most one part in share of the time is spent on evaluating.
		sleep(ctx, max(pause, (share-1)*time.Since(began)), nil)
		sleep(ctx, next, e.objects.changed)
	}
}

// sleep waits for d, woken or the end of ctx, whichever is first.
func sleep(ctx context.Context, d time.Duration, woken <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-woken:
	case <-timer.C:
	}
}

// evaluateDue evaluates every pod that is due, and says when the next one is if nothing
// changes.
func (e *explainer) evaluateDue(ctx context.Context) time.Duration {
	revision := e.objects.revision.Load()
	due, next := e.schedule.due(kept[*corev1.Pod](e.objects.pods), revision)
	if len(due) == 0 {
		e.metrics.Waiting(e.schedule.verdicts())
		return next
	}
	began := time.Now()
	all := e.startPass()
	for _, p := range due {
		if ctx.Err() != nil {
			return next
		}
		if err := e.evaluate(ctx, all, p); err != nil {
			klog.FromContext(ctx).Error(err, "a pod that waits is not explained", "pod", klog.KObj(p.pod))
		}
	}
	e.metrics.Evaluated(began)
	e.metrics.Waiting(e.schedule.verdicts())
	return next
}

// evaluate explains a pod's claims, and sends the pod an event if it says anything new.
func (e *explainer) evaluate(ctx context.Context, all *pass, p *pendingPod) error {
	s := all.subject(p.pod)
	report, err := all.explain(ctx, s)
	if err != nil {
		return err
	}
	message := eventMessage(report, p.pod, all.known.Claims)
	p.verdict = report.Verdict
	if !p.shouldNotify(message) {
		return nil
	}
	if !e.events.TryAccept() {
		p.reschedule()
		return nil
	}
	confirmed, err := e.confirm(ctx, &s)
	if err != nil || !confirmed {
		p.reschedule()
		return err
	}
	e.notify(p.pod, message)
	e.metrics.Notified()
	p.notified(message)
	return nil
}
