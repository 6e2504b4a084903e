// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

// runLanes runs the cycles of the plan, in its order, as many at a time
// as the node has lanes. Each lane has a NIC of its own, so that it is known whose
// pod lost it. The first failure ends them all.
func (r *run) runLanes(ctx context.Context, plan []Cycle) error {
	nics := r.before.nics()
	if len(nics) < r.config.Node.Lanes {
		return fmt.Errorf("node %s has %d NICs: want one for each of %d pods at a time", r.config.Node.Name, len(nics), r.config.Node.Lanes)
	}
	lanes, living := errgroup.WithContext(ctx)
	r.background = lanes
	cycles := make(chan Cycle)
	lanes.Go(func() error {
		defer close(cycles)
		for _, c := range plan {
			select {
			case <-living.Done():
				return living.Err()
			case cycles <- c:
			}
		}
		return nil
	})
	for _, n := range nics[:r.config.Node.Lanes] {
		lanes.Go(func() error {
			if err := r.pin(living, n); err != nil {
				return err
			}
			for c := range cycles {
				if err := r.runCycle(living, c, n); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := lanes.Wait(); err != nil {
		return err
	}
	return r.asBefore(ctx)
}

// runCycle runs one pod, from its creation until its NIC is back on the host.
func (r *run) runCycle(ctx context.Context, c Cycle, n nic) error {
	r.attribution.mark(c.Number, n.mark())
	p, err := r.create(ctx, c, n.template())
	if err != nil {
		return err
	}
	defer r.watch.remove(p.uid)
	for _, phase := range []Phase{Creating, Running} {
		if err := r.fault(ctx, p, phase); err != nil {
			return err
		}
		if c.Fault == ForceDeleted && c.Phase == phase {
			break
		}
		if err := r.allRun(ctx, []*pod{p}, "in phase "+string(phase)); err != nil {
			return err
		}
	}
	if err := r.finish(ctx, p, n); err != nil {
		return err
	}
	r.background.Go(func() error {
		defer r.attribution.end(c.Number)
		if err := r.settled(ctx, p, ""); err != nil {
			return err
		}
		r.cycleDone(c)
		return nil
	})
	return nil
}

// fault injects the pod's where this is its phase.
func (r *run) fault(ctx context.Context, p *pod, phase Phase) error {
	if p.cycle.Phase != phase {
		return nil
	}
	if err := harness.Sleep(ctx, p.cycle.Delay); err != nil {
		return err
	}
	r.reporting.Lock()
	r.summary.fault(p.cycle)
	r.reporting.Unlock()
	happened, err := r.inject(ctx, p)
	if err != nil {
		return fmt.Errorf("%s: %w", p.cycle, err)
	}
	if !happened {
		r.reporting.Lock()
		defer r.reporting.Unlock()
		r.summary.Skipped = append(r.summary.Skipped, p.cycle.String())
	}
	return nil
}

// finish ends a pod and waits for its NIC, which the next one of the lane gets. What
// else is left may stay until then: a kubelet that was restarted unprepares the claim
// of a pod deleted without grace a minute later. Other pods end meanwhile, and no
// agent where that would cost a stand-in (see killAgent).
func (r *run) finish(ctx context.Context, p *pod, n nic) error {
	if r.standIns() {
		if err := r.agentInUse.Acquire(ctx, 1); err != nil {
			return err
		}
		defer r.agentInUse.Release(1)
	}
	claims, err := r.claims(ctx, p)
	if err != nil {
		return err
	}
	for _, c := range claims {
		r.attribution.mark(p.cycle.Number, string(c.UID))
	}
	r.watch.leave(p.uid)
	var grace int64 = 1
	if p.cycle.Fault == ForceDeleted {
		grace = 0
	}
	if err := harness.DeletePod(ctx, r.config.Client, namespace, p.name, grace); err != nil {
		return err
	}
	if err := r.fault(ctx, p, Deleting); err != nil {
		return err
	}
	if err := r.settled(ctx, p, n.mark()); err != nil {
		return err
	}
	r.attribution.unmark(p.cycle.Number, n.mark())
	return nil
}

// settled waits until a pod is gone, and nothing on the node is left of it that has
// the mark.
func (r *run) settled(ctx context.Context, p *pod, mark string) error {
	gone, owed := false, []string{}
	err := r.until(ctx, func() (bool, error) {
		var err error
		if gone, err = r.gone(ctx, p); err != nil || !gone {
			return false, err
		}
		if err := r.readState(ctx); err != nil {
			return false, err
		}
		owed = r.attribution.unresolved(p.cycle.Number, mark)
		return len(owed) == 0, nil
	})
	if errors.Is(err, harness.ErrTimeout) {
		if !gone {
			owed = []string{p.cycle.String() + ": the pod or its claim does not go"}
		}
		return r.wrong(owed...)
	}
	return err
}

// readState passes the state of the node to the attribution. What another lane began
// to read since the call will do.
func (r *run) readState(ctx context.Context) error {
	called := time.Now()
	r.reading.Lock()
	defer r.reading.Unlock()
	if r.readFrom.After(called) {
		return nil
	}
	from := time.Now()
	now, err := r.config.Node.state(ctx)
	if err != nil {
		return err
	}
	r.readFrom = from
	r.attribution.see(now)
	return nil
}

// cycleDone counts a cycle, and prints from time to time how many there were.
func (r *run) cycleDone(c Cycle) {
	r.reporting.Lock()
	defer r.reporting.Unlock()
	r.summary.done(c)
	r.progress.Done(r.summary.all(), r.summary.Cycles)
}
