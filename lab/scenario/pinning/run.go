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

// poll is how long until something is asked again.
const poll = 300 * time.Millisecond

type run struct {
	harness.Cluster
	report harness.Report
	nodes  map[int]cpuset.CPUSet
	// held is when which CPUs were exclusive, by the node's uptime.
	held []interval
}

// interval is a time in which nobody else may run on CPUs.
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
	for _, step := range []func(context.Context) error{r.others, r.claims, r.update, r.restarts, r.end} {
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
func (r *run) expect(ctx context.Context, pod string, good func(place) bool, want string) (place, error) {
	var p place
	err := r.until(ctx, func() (bool, error) {
		var err error
		p, err = r.where(ctx, pod)
		return err == nil && good(p), ignoreGone(err)
	})
	if err != nil && !errors.Is(err, harness.ErrTimeout) {
		return p, err
	}
	r.report.Finding(err == nil, pod, "CPUs %s, memory nodes %s; %s", p.CPUs, p.Mems, want)
	return p, nil
}

func (r *run) until(ctx context.Context, ask func() (bool, error)) error {
	return harness.WaitFor(ctx, poll, patience, ask)
}
