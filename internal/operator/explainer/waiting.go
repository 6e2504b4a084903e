// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explainer

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// settle is how long after its PodScheduled condition a pod is evaluated: what
	// it waits for is often about to be freed.
	settle = 5 * time.Second
	// patience is how long a pod may be without that condition, which the scheduler
	// does not set on pods whose claims are missing.
	patience = 30 * time.Second
)

// scheduled is a pod's PodScheduled condition, nil before there is one.
func scheduled(p *corev1.Pod) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == corev1.PodScheduled {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// waits says whether a pod with claims waits for the scheduler, and since when
// it has waited long enough to be explained.
func waits(p *corev1.Pod) (since time.Time, does bool) {
	if len(p.Spec.ResourceClaims) == 0 || p.Spec.NodeName != "" || p.DeletionTimestamp != nil ||
		len(p.Spec.SchedulingGates) > 0 || p.Status.Phase != corev1.PodPending {
		return time.Time{}, false
	}
	c := scheduled(p)
	switch {
	case c == nil:
		return p.CreationTimestamp.Add(patience), true
	case c.Status != corev1.ConditionFalse:
		return time.Time{}, false
	case c.Reason == corev1.PodReasonUnschedulable, c.Reason == corev1.PodReasonSchedulerError:
		return c.LastTransitionTime.Add(settle), true
	}
	return time.Time{}, false
}
