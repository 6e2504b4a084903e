// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"errors"
	"fmt"
	"time"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

// Cost is what pods cost an agent while there are no faults.
type Cost struct {
	// Writes are those of ResourceSlices in the first 50 pods' lives.
	Writes int
	// Before and After are the agent's resident memory in bytes, before the
	// first of 200 pods and after the last.
	Before, After int64
}

// Sizes of a measurement, and how long the agent is left alone before its memory
// is read: its garbage is collected by then. The pods before them fill what it
// keeps for good. The benchmarks' names have the numbers.
const (
	fewPods    = 50
	manyPods   = 200
	warmPods   = 24
	collection = 30 * time.Second
)

// MeasureAgentCost takes pods through their lives and reads what became of the agent.
func MeasureAgentCost(ctx context.Context, c Config) (Cost, error) {
	var cost Cost
	err := frame(ctx, c, func(ctx context.Context, r *run) error {
		err := r.watching(ctx, func() (err error) {
			cost, err = r.agentCost(ctx)
			return err
		})
		return errors.Join(err, wrongs(r.watch.Wrong()))
	})
	return cost, err
}

func (r *run) agentCost(ctx context.Context) (cost Cost, err error) {
	lived, err := r.many(ctx, 0, warmPods)
	if err != nil {
		return cost, err
	}
	before, err := r.agentAtRest(ctx)
	if err != nil {
		return cost, err
	}
	if lived, err = r.many(ctx, lived, lived+fewPods); err != nil {
		return cost, err
	}
	soon, err := r.config.Node.agent(ctx)
	if err != nil {
		return cost, err
	}
	if _, err = r.many(ctx, lived, lived+manyPods-fewPods); err != nil {
		return cost, err
	}
	after, err := r.agentAtRest(ctx)
	if err != nil {
		return cost, err
	}
	if before.pid != after.pid {
		return cost, fmt.Errorf("the agent was process %d and is %d: it ended meanwhile", before.pid, after.pid)
	}
	return Cost{Writes: soon.writes - before.writes, Before: before.resident, After: after.resident}, nil
}

func wrongs(list []string) error {
	var errs []error
	for _, wrong := range list {
		errs = append(errs, errors.New(wrong))
	}
	return errors.Join(errs...)
}

// many takes pods through their lives, from the one after number from on to at
// least number to.
func (r *run) many(ctx context.Context, from, to int) (last int, err error) {
	for last = from; last < to; {
		made, err := r.runRound(ctx, last)
		if err != nil {
			return last, err
		}
		last += made
	}
	return last, nil
}

func (r *run) agentAtRest(ctx context.Context) (agent, error) {
	if err := harness.Sleep(ctx, collection); err != nil {
		return agent{}, err
	}
	return r.config.Node.agent(ctx)
}

// agent is what the node knows of its agent.
type agent struct {
	pid      int
	resident int64
	// writes are those of ResourceSlices since it started.
	writes int
}

// agentScript asks the agent itself for its figures, and the kernel for the rest.
const agentScript = `pid=$(find_agent) || { echo "no agent runs" >&2; exit 1; }
resident=$(awk '/^VmRSS:/ { print $2 }' "/proc/$pid/status")
writes=$(nsenter -t "$pid" -m /usr/bin/plumbline-agent metrics |
	awk '/^plumbline_agent_publish_writes_total/ { n += $2 } END { print n + 0 }')
echo "$pid $resident $writes"`

func (n Node) agent(ctx context.Context) (a agent, err error) {
	out, err := n.run(ctx, agentScript)
	if err != nil {
		return a, fmt.Errorf("read the agent's figures: %w", err)
	}
	var kibibytes int64
	if _, err := fmt.Sscan(out, &a.pid, &kibibytes, &a.writes); err != nil {
		return a, fmt.Errorf("read the agent's figures from %q: %w", out, err)
	}
	a.resident = kibibytes << 10
	return a, nil
}
