// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/agent/pinning"
	"plumbline.dev/plumbline/internal/agent/runtimestate"
	"plumbline.dev/plumbline/internal/agent/status"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/model"
)

// placement is what decides where containers belong, as the journal has it now.
type placement struct {
	preparer *claims.Preparer
	records  []driver.Record
	byPod    map[types.UID][]driver.Record
	// doubts are why a claim's CPUs cannot be counted on.
	doubts map[types.UID]error
	// pool is shared by all containers without CPUs of their own; empty is every
	// CPU. With poolErr there is none, and no container is moved into it.
	pool    cpuset.CPUSet
	poolErr error
}

// pinner is the driver that says where containers run; nil where none is served.
func (h *hooks) pinner() *claims.Preparer {
	for _, p := range h.preparers {
		if p.Pinner != nil {
			return p
		}
	}
	return nil
}

// newPlacement reads the journal. An error says that it cannot be read, so that
// every container stays where it is.
func (h *hooks) newPlacement() (placement, error) {
	s := placement{preparer: h.pinner()}
	if s.preparer == nil {
		return s, nil
	}
	records, err := h.records(func(p *claims.Preparer) bool { return p == s.preparer })
	if err != nil {
		return s, err
	}
	s.add(records)
	return s, nil
}

func (s *placement) add(records []driver.Record) {
	s.records, s.byPod = records, map[types.UID][]driver.Record{}
	for _, r := range records {
		for _, pod := range r.Pods {
			s.byPod[pod.UID] = append(s.byPod[pod.UID], r)
		}
	}
	m, pinner := s.preparer.Machine(), s.preparer.Pinner
	s.doubts = pinning.Conflicts(m, records, func(r driver.Record) (driver.Pin, error) { return pinner.Exclusive([]driver.Record{r}) })
	shared, err := pinner.Shared(m, records)
	s.pool, s.poolErr = shared.CPUs, err
}

// quarantine is which claims have a status that says Quarantined.
type quarantine struct {
	mu     sync.Mutex
	claims map[types.UID]bool
}

// tell has the claims in doubt say so, and those that no longer are; all of them
// after a connection began, since an agent before this one may have told them
// else. Nothing is written twice.
func (q *quarantine) tell(s *placement, all bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := q.claims
	q.claims = map[types.UID]bool{}
	for _, r := range s.records {
		err := s.doubts[r.Claim.UID]
		switch {
		case err != nil:
			q.claims[r.Claim.UID] = true
			s.preparer.Status(status.Of(r, status.Quarantined, err))
		case all || before[r.Claim.UID]:
			s.preparer.Status(status.Of(r, status.Prepared, nil))
		}
	}
}

// assign is where a container belongs by its shares of the records.
func (s *placement) assign(c runtimestate.Running, shares []share) (pinning.Container, error) {
	assigned := pinning.Container{
		ID: c.Container.ID, Name: c.Container.Name, Namespace: c.Sandbox.Namespace,
		Pod: driver.PodRef{UID: c.Sandbox.UID, Name: c.Sandbox.Name}, Group: c.Container.Group, RequestedCPUs: c.Container.RequestedCPUs,
	}
	var mine []driver.Record
	for _, share := range shares {
		assigned.Skip = assigned.Skip || s.doubts[share.record.Claim.UID] != nil
		mine = append(mine, share.part())
	}
	if assigned.Skip {
		return assigned, nil
	}
	var err error
	assigned.Pin, err = s.preparer.Pinner.Exclusive(mine)
	return assigned, err
}

// assignments are where containers belong. One that is in doubt is left out, and stays.
func (h *hooks) assignments(ctx context.Context, s *placement, containers []runtimestate.Running) []pinning.Container {
	assignments := make([]pinning.Container, 0, len(containers))
	for _, c := range containers {
		shares, err := h.sharesIn(s, c)
		var assigned pinning.Container
		if err == nil {
			assigned, err = s.assign(c, shares)
		}
		if err == nil && !assigned.Exclusive() && !assigned.Skip {
			err = s.poolErr
		}
		if assigned.Exclusive() {
			facts := h.pods.Get(c.Sandbox.UID)
			assigned.AllLimited = facts != nil && facts.AllLimited()
		}
		if err != nil {
			klog.FromContext(ctx).Error(err, "container stays where it is", "pod", c.Sandbox.String(), "container", c.Container.Name)
			continue
		}
		assignments = append(assignments, assigned)
	}
	return assignments
}

// sharesIn is sharesOf without the wait for the API watch, and with the least
// work for the many containers that hold nothing.
func (h *hooks) sharesIn(s *placement, c runtimestate.Running) ([]share, error) {
	records := s.byPod[c.Sandbox.UID]
	if len(c.Container.CDI) > 0 || len(c.Container.Env) > 0 {
		records = s.records // those of other pods are refused
	}
	if len(records) == 0 {
		return nil, nil
	}
	return sharesOf(c.Sandbox, c.Container, records, h.pods.Get(c.Sandbox.UID))
}

// doubt says why a container must not start on what it holds; nil: it may.
func (s *placement) doubt(shares []share) error {
	var errs []error
	for _, share := range shares {
		if err := s.doubts[share.record.Claim.UID]; err != nil {
			errs = append(errs, fmt.Errorf("the claim is quarantined: %w", err))
		}
	}
	return errors.Join(errs...)
}

func onlineCPUs(m *model.Machine) cpuset.CPUSet {
	var ids []int
	for _, c := range m.CPUs {
		if c.Online {
			ids = append(ids, c.ID)
		}
	}
	return cpuset.New(ids...)
}
