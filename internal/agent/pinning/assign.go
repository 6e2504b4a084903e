// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package pinning

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/agent/podclaims"
	"plumbline.dev/plumbline/internal/agent/runtimestate"
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

// newPlacement reads the journal. An error says that it cannot be read, so that
// every container stays where it is.
func (r *Reconciler) newPlacement() (placement, error) {
	s := placement{preparer: r.preparer}
	if s.preparer == nil {
		return s, nil
	}
	records, err := s.preparer.Records()
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
	s.doubts = Conflicts(m, records, func(r driver.Record) (driver.Pin, error) { return pinner.Exclusive([]driver.Record{r}) })
	shared, err := pinner.Shared(m, records)
	s.pool, s.poolErr = shared.CPUs, err
}

// assign is where a container belongs by its shares of the records.
func (s *placement) assign(c runtimestate.Running, shares []podclaims.Share) (Container, error) {
	assigned := Container{
		ID: c.Container.ID, Name: c.Container.Name, Namespace: c.Sandbox.Namespace,
		Pod: driver.PodRef{UID: c.Sandbox.UID, Name: c.Sandbox.Name}, Group: c.Container.Group, RequestedCPUs: c.Container.RequestedCPUs,
	}
	var mine []driver.Record
	for _, share := range shares {
		assigned.Skip = assigned.Skip || s.doubts[share.Record.Claim.UID] != nil
		mine = append(mine, share.Part())
	}
	if assigned.Skip {
		return assigned, nil
	}
	var err error
	assigned.Pin, err = s.preparer.Pinner.Exclusive(mine)
	return assigned, err
}

// assignments are where containers belong. One that is in doubt is left out, and stays.
func (r *Reconciler) assignments(ctx context.Context, s *placement, containers []runtimestate.Running) []Container {
	assignments := make([]Container, 0, len(containers))
	for _, c := range containers {
		shares, err := r.sharesIn(s, c)
		var assigned Container
		if err == nil {
			assigned, err = s.assign(c, shares)
		}
		if err == nil && !assigned.Exclusive() && !assigned.Skip {
			err = s.poolErr
		}
		if assigned.Exclusive() {
			facts := r.pods.Get(c.Sandbox.UID)
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

// sharesIn is podclaims.SharesOf without the wait for the API watch, and with the least
// work for the many containers that hold nothing.
func (r *Reconciler) sharesIn(s *placement, c runtimestate.Running) ([]podclaims.Share, error) {
	records := s.byPod[c.Sandbox.UID]
	if len(c.Container.CDI) > 0 || len(c.Container.Env) > 0 {
		records = s.records // those of other pods are refused
	}
	if len(records) == 0 {
		return nil, nil
	}
	return podclaims.SharesOf(c.Sandbox, c.Container, records, r.pods.Get(c.Sandbox.UID))
}

// doubt says why a container must not start on what it holds; nil: it may.
func (s *placement) doubt(shares []podclaims.Share) error {
	var errs []error
	for _, share := range shares {
		if err := s.doubts[share.Record.Claim.UID]; err != nil {
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

// PinFor says where a container that is being made runs: on the CPUs of its
// claims, or with every other one on what claims leave. records are the journal's of
// all drivers, shares what the container has of them.
func (r *Reconciler) PinFor(c runtimestate.Running, records []driver.Record, shares []podclaims.Share) (driver.Pin, error) {
	if r.preparer == nil {
		return driver.Pin{}, nil
	}
	s, name := placement{preparer: r.preparer}, r.preparer.Name()
	s.add(slices.DeleteFunc(slices.Clone(records), func(r driver.Record) bool { return r.Driver != name }))
	return s.pinFor(c, slices.DeleteFunc(slices.Clone(shares), func(s podclaims.Share) bool { return s.Record.Driver != name }))
}

func (s *placement) pinFor(c runtimestate.Running, shares []podclaims.Share) (driver.Pin, error) {
	if err := s.doubt(shares); err != nil {
		return driver.Pin{}, err
	}
	assigned, err := s.assign(c, shares)
	if err != nil {
		return driver.Pin{}, err
	}
	if !assigned.Exclusive() && s.poolErr != nil {
		return driver.Pin{}, s.poolErr
	}
	want := Wanted(assigned, s.pool)
	return driver.Pin{CPUs: want.CPUs, Mems: want.Mems, Env: assigned.Pin.Env}, nil
}
