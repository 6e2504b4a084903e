// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explaining

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// judgeAgain is the least time between two answers for a pod: in a busy
	// cluster something changes every second.
	judgeAgain = time.Minute
	// tellAgain is the least time between two events of a pod.
	tellAgain = 5 * time.Minute
	// repeat is when a pod that still waits is told again what it was told: the
	// API server forgets events after an hour (kube-apiserver --event-ttl).
	repeat = 30 * time.Minute
	// never is far enough away: whatever changes is looked at.
	never = time.Hour
)

// turns say whose turn it is to be judged.
type turns struct {
	now  func() time.Time
	pods map[types.UID]*turn
}

// turn is what is known of a pod that waits.
type turn struct {
	pod *corev1.Pod
	now func() time.Time
	// from is when it has waited long enough.
	from time.Time
	// revision and version are those of the cluster and of the pod that the last
	// answer is of, at the time.
	revision int64
	version  string
	answered time.Time
	verdict  string
	// said is the text of the last event, at the time; news is there if another
	// is to be told as soon as may be.
	said   string
	saidAt time.Time
	news   bool
}

// take says whose turn it is now, those that waited longest for it first, and how
// long it takes until it is somebody's if nothing changes. Pods that do not wait
// any more are forgotten.
func (t *turns) take(pods []*corev1.Pod, revision int64) (due []*turn, next time.Duration) {
	now, next := t.now(), never
	waiting := make(map[types.UID]*turn, len(t.pods))
	for _, p := range pods {
		from, does := waits(p)
		if !does {
			continue
		}
		own := t.pods[p.UID]
		if own == nil {
			own = &turn{now: t.now, revision: -1}
		}
		own.pod, own.from = p, from
		waiting[p.UID] = own
		at, ever := own.at(revision)
		switch {
		case !ever:
		case at.After(now):
			next = min(next, at.Sub(now))
		default:
			own.revision, own.version, own.answered = revision, p.ResourceVersion, now
			due = append(due, own)
			next = min(next, judgeAgain)
		}
	}
	t.pods = waiting
	slices.SortFunc(due, func(a, b *turn) int { return cmp.Or(a.from.Compare(b.from), cmp.Compare(a.pod.UID, b.pod.UID)) })
	return due, next
}

// at is when a pod is to be judged, if ever while nothing changes.
func (t *turn) at(revision int64) (at time.Time, ever bool) {
	at = t.from
	if !t.answered.IsZero() {
		at = latest(at, t.answered.Add(judgeAgain))
	}
	if t.revision != revision || t.version != t.pod.ResourceVersion {
		return at, true
	}
	switch {
	case t.news:
		return latest(at, t.saidAt.Add(tellAgain)), true
	case t.said != "":
		return latest(at, t.saidAt.Add(repeat)), true
	}
	return at, false
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// judged remembers an answer.
func (t *turn) judged(verdict string) { t.verdict = verdict }

// isNew says whether a text is to be told now: it is another one, and the last
// was some time ago, or is forgotten soon.
func (t *turn) isNew(text string) bool {
	t.news = text != "" && text != t.said
	if text == "" || t.said == "" {
		return t.news
	}
	ago := t.now().Sub(t.saidAt)
	return ago >= repeat || t.news && ago >= tellAgain
}

// told remembers an event.
func (t *turn) told(text string) { t.said, t.saidAt, t.news = text, t.now(), false }

// postpone has the pod judged again although nothing changes.
func (t *turn) postpone() { t.revision = -1 }

// verdicts counts the pods that wait by their last answer.
func (t *turns) verdicts() map[string]int {
	all := map[string]int{}
	for _, p := range t.pods {
		if p.verdict != "" {
			all[p.verdict]++
		}
	}
	return all
}
