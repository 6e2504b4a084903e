// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plumbline.dev/plumbline/internal/kube"
)

// conditionHostReady says whether the host lets a device do what it can, by the host's
// own files.
const conditionHostReady = "HostReady"

// ReasonHostReady is that of a device with which nothing is wrong.
const ReasonHostReady = "HostReady"

// hostAnswer is what the host's checks say of a device.
type hostAnswer struct {
	Answer
	since time.Time
}

func (a hostAnswer) condition() metav1.Condition {
	return metav1.Condition{
		Type: conditionHostReady, Status: a.Status, Reason: a.Reason, Message: kube.BoundedText(maxMessage, a.Message), LastTransitionTime: atSeconds(a.since),
	}
}

// SetHost replaces what the host's checks say of a driver's devices, by device name.
// The claims that hold one of them say so; their pods get an event when something is
// wrong, and when that is mended.
func (w *Writer) SetHost(driverName string, answers map[string]Answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.host[driverName]
	now := make(map[string]hostAnswer, len(answers))
	for device, a := range answers {
		now[device] = hostAnswer{Answer: a, since: time.Now()}
		if was, ok := before[device]; ok && was.Status == a.Status {
			now[device] = hostAnswer{Answer: a, since: was.since}
		}
	}
	if maps.Equal(before, now) {
		return
	}
	w.host[driverName] = now
	for key, r := range w.reports {
		if key.driver == driverName && w.tellHost(r, before) {
			w.want(key, r)
		}
	}
}

// tellHost tells a claim's pods what has become wrong or was mended, and returns whether
// there is anything new for the claim.
func (w *Writer) tellHost(r Report, before map[string]hostAnswer) (changed bool) {
	for _, d := range r.Devices {
		was, known := before[d.Device]
		is, judged := w.host[r.Driver][d.Device]
		if was == is && known == judged {
			continue
		}
		changed = true
		wrong := judged && is.Status == metav1.ConditionFalse
		mended := known && was.Status == metav1.ConditionFalse && is.Status == metav1.ConditionTrue
		if !wrong && !mended {
			continue
		}
		for _, pod := range r.Pods {
			w.events.Pod(r.Claim.Namespace, pod, wrong, is.Reason, d.Device+": "+is.Message)
		}
	}
	return changed
}
