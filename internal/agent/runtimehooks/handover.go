// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/agent/podclaims"
	"plumbline.dev/plumbline/internal/agent/runtimestate"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/kube"
)

// handOver gives a pod the records of its claims that no other pod has any more.
// The kubelet unprepares a claim with its last pod, and prepares it with its
// first, so a pod that was there before the last one left gets neither.
func (h *hooks) handOver(ctx context.Context, s runtimestate.Sandbox, records []driver.Record, facts *kube.Pod) error {
	for i, r := range records {
		if !podclaims.Uses(facts, r) || podclaims.Holds(r, s.UID) || podclaims.Replaced(r, records, s.UID) || s.Netns == "" && h.moves(r) || !h.abandoned(r) {
			continue
		}
		now, err := h.giveTo(ctx, r, s)
		if err != nil && !errors.Is(err, errSuperseded) {
			return fmt.Errorf("hand claim %s over to pod %s: %w", r.Claim, s, err)
		}
		records[i] = now
	}
	return nil
}

// abandoned says whether none of a record's pods is there: neither the runtime has
// a sandbox of one, nor the API server a pod that may yet run.
func (h *hooks) abandoned(r driver.Record) bool {
	for _, pod := range r.Pods {
		if h.state.Runs(pod.UID) {
			return false
		}
		if facts := h.pods.Get(pod.UID); facts != nil && !facts.Ended {
			return false
		}
	}
	return true
}

// giveTo makes the pod the record's only one. Attaching brings the devices back
// from wherever they are first.
func (h *hooks) giveTo(ctx context.Context, r driver.Record, s runtimestate.Sandbox) (driver.Record, error) {
	p := h.preparerOf(r.Driver)
	now, unlock, err := h.lockCurrent(ctx, p, r)
	if err != nil {
		return r, err
	}
	defer unlock()
	if podclaims.Holds(now, s.UID) || !h.abandoned(now) {
		return now, nil // another agent was first
	}
	now.Pods = []driver.PodRef{{UID: s.UID, Name: s.Name}}
	if err := p.Journal.Put(now); err != nil {
		return r, err
	}
	klog.FromContext(ctx).Info("claim handed over", "driver", r.Driver, "claim", r.Claim.String(), "to", s.String())
	return now, nil
}
