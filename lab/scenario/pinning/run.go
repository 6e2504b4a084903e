// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package pinning

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

// patience is how long anything may take: the node's processors may be emulated.
const patience = 4 * time.Minute

// poll is the interval of waiting for a condition.
const poll = 300 * time.Millisecond

type run struct {
	harness.Cluster
	report harness.Report
	nodes  map[int]cpuset.CPUSet
	// held is when which CPUs were exclusive, by the node's uptime.
	held []interval
}

// interval is a time in which CPUs are exclusive to a claim.
type interval struct {
	cpus       cpuset.CPUSet
	begin, end float64
}

// Run goes through all steps, prints what it finds, and leaves nothing of its own in
// the cluster. Its node has two NUMA nodes of two CPUs at least.
func Run(ctx context.Context, c harness.Cluster) error {
	r := &run{Cluster: c, report: harness.Report{Scenario: "cpus", Out: c.Out}}
	return r.report.Verdict(harness.Run(ctx, patience, r.cleanUp, r.steps))
}

func (r *run) steps(ctx context.Context) (err error) {
	if r.nodes, err = r.readNodes(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{r.podsWithoutClaims, r.claims, r.resizeInPlace, r.restarts, r.wholeRun} {
		began := time.Now()
		if err := step(ctx); err != nil {
			return err
		}
		fmt.Fprintf(r.Out, "  after %s\n", time.Since(began).Round(time.Second))
	}
	return nil
}

// all are the node's CPUs.
func (r *run) all() cpuset.CPUSet {
	all := cpuset.New()
	for _, cpus := range r.nodes {
		all = all.Union(cpus)
	}
	return all
}

// expect waits until a pod's containers run where they should, and prints where they
// run.
func (r *run) expect(ctx context.Context, pod string, good func(affinity) bool, want string) (affinity, error) {
	var p affinity
	err := r.until(ctx, func() (bool, error) {
		var err error
		p, err = r.affinity(ctx, pod)
		return err == nil && good(p), ignoreGone(err)
	})
	if err != nil && !errors.Is(err, harness.ErrTimeout) {
		return p, err
	}
	r.report.Finding(err == nil, pod, "CPUs %s, memory nodes %s; %s", p.CPUs, p.Mems, want)
	return p, nil
}

func (r *run) until(ctx context.Context, condition func() (bool, error)) error {
	return harness.WaitFor(ctx, poll, patience, condition)
}
