// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explainer

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// evaluateInterval is the least time between two evaluations of a pod: in a busy
	// cluster something changes every second.
	evaluateInterval = time.Minute
	// notifyInterval is the least time between two events of a pod.
	notifyInterval = 5 * time.Minute
	// repeatInterval is when a pod that still waits gets the same event again: the
	// API server forgets events after an hour (kube-apiserver --event-ttl).
	repeatInterval = 30 * time.Minute
	// maxDelay bounds the wait for a change: whatever changes ends it.
	maxDelay = time.Hour
)

// retrySchedule says when each pending pod is evaluated again.
type retrySchedule struct {
	now  func() time.Time
	pods map[types.UID]*pendingPod
}

// pendingPod is what is known of a pod that waits for its claims.
type pendingPod struct {
	pod *corev1.Pod
	now func() time.Time
	// notBefore is when it has waited long enough.
	notBefore time.Time
	// revision and version are those of the cluster and of the pod at the last
	// evaluation.
	revision      int64
	version       string
	lastEvaluated time.Time
	verdict       string
	// message is the text of the last event; pending says that another is to be
	// sent as soon as notifyInterval allows.
	message      string
	lastNotified time.Time
	pending      bool
}

// due lists the pods to evaluate now, those that waited longest first, and how long
// it takes until the next is due if nothing changes. Pods that do not wait any more
// are forgotten.
func (s *retrySchedule) due(pods []*corev1.Pod, revision int64) (due []*pendingPod, next time.Duration) {
	now, next := s.now(), maxDelay
	waiting := make(map[types.UID]*pendingPod, len(s.pods))
	for _, pod := range pods {
		notBefore, does := waits(pod)
		if !does {
			continue
		}
		p := s.pods[pod.UID]
		if p == nil {
			p = &pendingPod{now: s.now, revision: -1}
		}
		p.pod, p.notBefore = pod, notBefore
		waiting[pod.UID] = p
		at, ever := p.nextEvaluation(revision)
		switch {
		case !ever:
		case at.After(now):
			next = min(next, at.Sub(now))
		default:
			p.revision, p.version, p.lastEvaluated = revision, pod.ResourceVersion, now
			due = append(due, p)
			next = min(next, evaluateInterval)
		}
	}
	s.pods = waiting
	slices.SortFunc(due, func(a, b *pendingPod) int {
		return cmp.Or(a.notBefore.Compare(b.notBefore), cmp.Compare(a.pod.UID, b.pod.UID))
	})
	return due, next
}

// nextEvaluation is when a pod is to be evaluated, if ever while nothing changes.
func (p *pendingPod) nextEvaluation(revision int64) (at time.Time, ever bool) {
	at = p.notBefore
	if !p.lastEvaluated.IsZero() {
		at = latest(at, p.lastEvaluated.Add(evaluateInterval))
	}
	if p.revision != revision || p.version != p.pod.ResourceVersion {
		return at, true
	}
	switch {
	case p.pending:
		return latest(at, p.lastNotified.Add(notifyInterval)), true
	case p.message != "":
		return latest(at, p.lastNotified.Add(repeatInterval)), true
	}
	return at, false
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// shouldNotify says whether an event with the message is to be sent now: it differs
// from the last one, and that was some time ago, or is forgotten soon.
func (p *pendingPod) shouldNotify(message string) bool {
	p.pending = message != "" && message != p.message
	if message == "" || p.message == "" {
		return p.pending
	}
	ago := p.now().Sub(p.lastNotified)
	return ago >= repeatInterval || p.pending && ago >= notifyInterval
}

// notified remembers an event.
func (p *pendingPod) notified(message string) {
	p.message, p.lastNotified, p.pending = message, p.now(), false
}

// reschedule has the pod evaluated again although nothing changes.
func (p *pendingPod) reschedule() { p.revision = -1 }

// verdicts counts the pods that wait by their last verdict.
func (s *retrySchedule) verdicts() map[string]int {
	all := map[string]int{}
	for _, p := range s.pods {
		if p.verdict != "" {
			all[p.verdict]++
		}
	}
	return all
}
