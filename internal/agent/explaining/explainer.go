// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explaining

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/agent/metrics"
	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/explain"
)

const (
	// eventsPerSecond and eventsAtOnce are for all pods together.
	eventsPerSecond, eventsAtOnce = 1, 20
	// share is the part of the time that is spent on answers: one in so many.
	share = 20
	// pause is the least time between two looks.
	pause = time.Second
)

// explainer answers for the pods that wait.
type explainer struct {
	objects *objects
	// minor and gates are those of the cluster's scheduler.
	minor int
	gates allocation.Gates
	// confirm asks the API server itself before tell makes an event.
	confirm func(ctx context.Context, s *explain.Subject) (bool, error)
	tell    func(p *corev1.Pod, text string)
	events  flowcontrol.PassiveRateLimiter
	metrics *metrics.Explainer
	turns   turns
}

// run looks again and again, until ctx ends.
func (e *explainer) run(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		next := e.look(ctx)
		// Explaining must not be what a cluster is busy with.
		sleep(ctx, max(pause, (share-1)*time.Since(began)), nil)
		sleep(ctx, next, e.objects.changed)
	}
}

func sleep(ctx context.Context, d time.Duration, woken <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-woken:
	case <-timer.C:
	}
}

// look answers for every pod whose turn it is, and says when the next one's is if
// nothing changes.
func (e *explainer) look(ctx context.Context) time.Duration {
	revision := e.objects.revision.Load()
	due, next := e.turns.take(kept[*corev1.Pod](e.objects.pods), revision)
	if len(due) == 0 {
		e.metrics.Waiting(e.turns.verdicts())
		return next
	}
	began := time.Now()
	r := e.read()
	for _, t := range due {
		if ctx.Err() != nil {
			return next
		}
		if err := e.answer(ctx, r, t); err != nil {
			klog.FromContext(ctx).Error(err, "a pod that waits is not explained", "pod", klog.KObj(t.pod))
		}
	}
	e.metrics.Looked(began)
	e.metrics.Waiting(e.turns.verdicts())
	return next
}

// answer judges a pod's claims, and tells the pod what is new.
func (e *explainer) answer(ctx context.Context, r *round, t *turn) error {
	s := r.subject(t.pod)
	report, err := r.explain(ctx, s)
	if err != nil {
		return err
	}
	text := note(report, t.pod, r.known.Claims)
	t.judged(report.Verdict)
	if !t.isNew(text) {
		return nil
	}
	if !e.events.TryAccept() {
		t.postpone()
		return nil
	}
	confirmed, err := e.confirm(ctx, &s)
	if err != nil || !confirmed {
		t.postpone()
		return err
	}
	e.tell(t.pod, text)
	e.metrics.Told()
	t.told(text)
	return nil
}
