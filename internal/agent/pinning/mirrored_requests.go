// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package pinning

import (
	"fmt"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"plumbline.dev/plumbline/internal/agent/runtimestate"
	"plumbline.dev/plumbline/internal/agent/status"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/kube"
)

// warned are the pods that have had the event, which comes once.
type warned struct {
	mu   sync.Mutex
	pods map[types.UID]bool
}

// first says whether the pod has not had the event, and notes that it has now.
func (w *warned) first(pod types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pods == nil {
		w.pods = map[types.UID]bool{}
	}
	before := w.pods[pod]
	w.pods[pod] = true
	return !before
}

func (w *warned) drop(pod types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pods, pod)
}

// keep drops all pods but those that are.
func (w *warned) keep(is func(types.UID) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.pods, func(pod types.UID, _ bool) bool { return !is(pod) })
}

// warnUnmirrored writes an event for a pod whose standard CPU requests are not what its claims
// give: the scheduler counts requests alone, and would give the CPUs away again.
func (r *Reconciler) warnUnmirrored(c runtimestate.Running) {
	s, err := r.newPlacement()
	if err != nil || s.preparer == nil {
		return
	}
	facts, records := r.pods.Get(c.Sandbox.UID), s.byPod[c.Sandbox.UID]
	if facts == nil || len(records) == 0 {
		return
	}
	pin, err := s.preparer.Pinner.Exclusive(records)
	if err != nil {
		return
	}
	if text := unmirrored(facts, records, pin); text != "" && r.warned.first(c.Sandbox.UID) {
		r.events.Pod(c.Sandbox.Namespace, driver.PodRef{UID: c.Sandbox.UID, Name: c.Sandbox.Name}, true, status.Unmirrored, text)
	}
}

// unmirrored says how a pod's requests differ from what its claims give, or
// nothing.
func unmirrored(facts *kube.Pod, records []driver.Record, pin driver.Pin) string {
	var claims []string
	for _, r := range records {
		claims = append(claims, r.Claim.Name)
	}
	asked, given := facts.Requested(claims), resource.NewQuantity(int64(pin.CPUs.Size()), resource.DecimalSI)
	const reason = "the scheduler counts requests only until claims count too (KEP-5517)"
	switch asked.Cmp(*given) {
	case -1:
		return fmt.Sprintf("the claims of pod %s/%s give it %s CPUs, and its containers that name them request %s: the node looks emptier than it is; "+
			"want resources.requests.cpu: %s, since %s", facts.Namespace, facts.Name, given, asked.String(), given, reason)
	case 1:
		return fmt.Sprintf("the claims of pod %s/%s give it %s CPUs, and its containers that name them request %s, of which they can use no more than the claims give; "+
			"want resources.requests.cpu: %s, since %s", facts.Namespace, facts.Name, given, asked.String(), given, reason)
	}
	return ""
}
