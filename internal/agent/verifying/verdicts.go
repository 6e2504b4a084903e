// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verifying

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plumbline.dev/plumbline/internal/agent/status"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/verify"
	"plumbline.dev/plumbline/internal/verify/evaluate"
)

// Listeners are called when a verdict changes. Each may be nil.
type Listeners struct {
	// Event gets a pod's change from or to Misaligned: not as claimed. A pod that
	// is as claimed and could be nearer has no event.
	Event func(namespace string, pod driver.PodRef, warning bool, reason, message string)
	// Condition gets both conditions of a claim; nil removes them.
	Condition func(claim types.UID, a *status.Alignment)
	// Misaligned gets the reason of each pod that was not misaligned before.
	Misaligned func(reason string)
}

// reported is what was last reported of a pod.
type reported struct {
	verdict evaluate.Verdict
	key     string
	// claims are the keys of what was reported of each claim, by UID.
	claims map[types.UID]string
	// unconfirmed is true after one check that was Unknown where the one before
	// was not.
	unconfirmed bool
}

// verdicts calls the listeners with what differs from what was last reported.
type verdicts struct {
	listeners Listeners
	now       func() time.Time
	pods      map[types.UID]*reported
}

// take reports what is new in one check of all pods.
func (v *verdicts) take(results []verify.Result, claims func(verify.Result) map[string]types.UID) {
	seen := map[types.UID]bool{}
	for _, r := range results {
		uid := types.UID(r.Expected.UID)
		seen[uid] = true
		if v.pods[uid] == nil {
			v.pods[uid] = &reported{claims: map[types.UID]string{}}
		}
		v.pod(v.pods[uid], r, claims(r))
	}
	for uid, t := range v.pods {
		if !seen[uid] {
			for claim := range t.claims {
				v.condition(claim, nil)
			}
			delete(v.pods, uid)
		}
	}
}

func (v *verdicts) pod(t *reported, r verify.Result, claims map[string]types.UID) {
	// A pod that starts or ends is Unknown for a moment: this is reported only
	// when two checks in a row say so.
	if r.Status == evaluate.Unknown && !t.unconfirmed && t.verdict.Status != evaluate.Unknown {
		t.unconfirmed = true
		return
	}
	t.unconfirmed = false
	before := t.verdict
	if key := r.Key(); key != t.key {
		t.key = key
		v.event(r, before)
	}
	t.verdict = r.Verdict
	for name, uid := range claims {
		one, near := r.OfClaim(name), r.NearnessOf(name)
		if key := one.Key() + "\n" + near.Key(); t.claims[uid] != key {
			t.claims[uid] = key
			v.condition(uid, &status.Alignment{
				AsClaimed: status.Answer{Status: metav1.ConditionStatus(one.Status), Reason: string(one.Reason), Message: one.Message},
				Aligned:   status.Answer{Status: metav1.ConditionStatus(near.Status), Reason: string(near.Reason), Message: near.Message},
				Since:     v.now(),
			})
		}
	}
}

func (v *verdicts) event(r verify.Result, before evaluate.Verdict) {
	pod := driver.PodRef{UID: types.UID(r.Expected.UID), Name: r.Expected.Name}
	switch {
	case r.Status == evaluate.False:
		if before.Status != evaluate.False && v.listeners.Misaligned != nil {
			v.listeners.Misaligned(string(r.Reason))
		}
		v.say(r, pod, true, string(evaluate.WordMisaligned), r.Message)
	case before.Status == evaluate.False && r.Status == evaluate.True:
		v.say(r, pod, false, string(evaluate.AsClaimed), "everything is as claimed again")
	}
}

func (v *verdicts) say(r verify.Result, pod driver.PodRef, warning bool, reason, message string) {
	if v.listeners.Event != nil {
		v.listeners.Event(r.Expected.Namespace, pod, warning, reason, message)
	}
}

func (v *verdicts) condition(claim types.UID, a *status.Alignment) {
	if v.listeners.Condition != nil {
		v.listeners.Condition(claim, a)
	}
}
