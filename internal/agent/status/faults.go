// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plumbline.dev/plumbline/internal/kube"
	"plumbline.dev/plumbline/internal/model"
)

// conditionHealthy is there, and False, while a device has a fault. A healthy
// device is not said to be: nobody would read it.
const conditionHealthy = "Healthy"

// SetFaults replaces what is wrong with a driver's devices, by device name. The
// claims that hold one of them say so, and their pods get an event.
func (w *Writer) SetFaults(driverName string, faults map[string][]model.Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.faults[driverName]
	w.faults[driverName] = faults
	for key, r := range w.reports {
		if key.driver != driverName {
			continue
		}
		changed := false
		for _, d := range r.Devices {
			was, is := before[d.Device], faults[d.Device]
			if slices.Equal(was, is) {
				continue
			}
			changed = true
			for _, pod := range r.Pods {
				w.events.Pod(r.Claim.Namespace, pod, len(is) > 0, faultReason(is), d.Device+": "+faultText(is))
			}
		}
		if changed {
			w.want(key, r)
		}
	}
}

func (w *Writer) want(key claimKey, r Report) {
	faults := map[string][]model.Fault{}
	for _, d := range r.Devices {
		if of := w.faults[key.driver][d.Device]; len(of) > 0 {
			faults[d.Device] = of
		}
	}
	host := map[string]hostAnswer{}
	for _, d := range r.Devices {
		if a, ok := w.host[key.driver][d.Device]; ok {
			host[d.Device] = a
		}
	}
	want := wanted{claim: r.Claim, devices: r.Devices, faults: faults, host: host, since: time.Now()}
	if a, ok := w.alignment[key.uid]; ok {
		want.aligned = &a
	}
	w.desired[key] = want
	w.queue.Add(key)
}

// faultReason is the first fault's kind, in the order of their names.
func faultReason(faults []model.Fault) string {
	if len(faults) == 0 {
		return "DeviceRecovered"
	}
	return string(slices.MinFunc(faults, model.CompareFaults).Kind)
}

func faultText(faults []model.Fault) string {
	if len(faults) == 0 {
		return "everything that was wrong with the device is well again"
	}
	var clauses []string
	for _, f := range slices.SortedFunc(slices.Values(faults), model.CompareFaults) {
		clauses = append(clauses, fmt.Sprintf("%s since %s: %s", f.Kind, f.Since.UTC().Format(time.RFC3339), f.Message))
	}
	return strings.Join(clauses, "; ")
}

func unhealthy(faults []model.Fault) metav1.Condition {
	began := slices.MinFunc(faults, func(a, b model.Fault) int { return a.Since.Compare(b.Since) }).Since
	return metav1.Condition{
		Type: conditionHealthy, Status: metav1.ConditionFalse, Reason: faultReason(faults), Message: kube.BoundedText(maxMessage, faultText(faults)), LastTransitionTime: atSeconds(began),
	}
}
