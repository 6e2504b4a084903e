// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package pinning

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

// Pods of a run.
const (
	busy   = "busy"   // no claim, on every CPU it may
	idle   = "idle"   // no claim, records where it may run
	first  = "first"  // a CPU of NUMA node 1
	second = "second" // a CPU of NUMA node 0
	late   = "late"   // no claim, made while claims hold CPUs
)

// podsWithoutClaims makes them, and starts sampling the busy one.
func (r *run) podsWithoutClaims(ctx context.Context) error {
	fmt.Fprintln(r.Out, "Pods without claims, before there is one")
	if err := harness.CreateNamespace(ctx, r.Client, namespace); err != nil {
		return err
	}
	// Two loops: on a small node they would use every CPU.
	if err := errors.Join(r.create(ctx, busy, "("+busyLoop+") & "+busyLoop), r.create(ctx, idle, recordAffinity)); err != nil {
		return err
	}
	if err := errors.Join(r.waitForReady(ctx, busy), r.waitForReady(ctx, idle)); err != nil {
		return err
	}
	var pids []string
	for _, pod := range []string{busy, idle} {
		p, err := r.expect(ctx, pod, func(p affinity) bool { return p.CPUs.Equals(r.all()) }, "want every CPU")
		if err != nil {
			return err
		}
		if pod == busy {
			pids = p.PIDs
		}
	}
	return r.startSampling(ctx, pids...)
}

// claims makes two, one after the other; pods without claims leave their CPUs.
func (r *run) claims(ctx context.Context) error {
	fmt.Fprintln(r.Out, "\nTwo claims, one after the other")
	for i, pod := range []string{first, second} {
		node := 1 - i
		if err := r.claim(ctx, pod, node); err != nil {
			return err
		}
		if err := r.createRecorder(ctx, pod, pod); err != nil {
			return err
		}
		p, err := r.expect(ctx, pod, func(p affinity) bool {
			return p.CPUs.Size() == 1 && p.CPUs.IsSubsetOf(r.nodes[node]) && p.Mems.Equals(cpuset.New(node))
		}, fmt.Sprintf("want one CPU and the memory of node %d", node))
		if err != nil {
			return err
		}
		at, err := r.now(ctx)
		if err != nil {
			return err
		}
		r.held = append(r.held, interval{cpus: p.CPUs, begin: at})
		if err := r.othersOutside(ctx, busy, idle); err != nil {
			return err
		}
	}
	if err := r.createRecorder(ctx, late); err != nil {
		return err
	}
	return r.othersOutside(ctx, late)
}

// pool are the CPUs that no claim holds.
func (r *run) pool() cpuset.CPUSet {
	pool := r.all()
	for _, h := range r.held {
		if h.end == 0 {
			pool = pool.Difference(h.cpus)
		}
	}
	return pool
}

func (r *run) othersOutside(ctx context.Context, pods ...string) error {
	pool := r.pool()
	for _, pod := range pods {
		if _, err := r.expect(ctx, pod, func(p affinity) bool { return p.CPUs.Equals(pool) }, "want "+pool.String()); err != nil {
			return err
		}
	}
	return nil
}

// resizeInPlace resizes containers, as an autoscaler does.
func (r *run) resizeInPlace(ctx context.Context) error {
	fmt.Fprintln(r.Out, "\nContainers resized in place")
	for _, pod := range []string{idle, late} {
		if err := r.resize(ctx, pod, "20m"); err != nil {
			return err
		}
	}
	return r.othersOutside(ctx, idle, late)
}

// restarts kills the agent and containerd, which must not change where pods may run.
func (r *run) restarts(ctx context.Context) error {
	for _, process := range []string{"plumbline-agent", "containerd"} {
		fmt.Fprintf(r.Out, "\n%s killed\n", process)
		out, err := r.Shell(ctx, killProcess, process[:min(len(process), 15)])
		if err != nil {
			return err
		}
		r.report.Finding(strings.Contains(out, "killed"), process, "ended by SIGKILL")
		// A pod made now waits for its CPUs, and shows that all is back.
		again := "after-" + process
		if err := r.claim(ctx, again, 0); err != nil {
			return err
		}
		if err := r.remove(ctx, second); err != nil {
			return err
		}
		if err := r.closeInterval(ctx, 1); err != nil {
			return err
		}
		if err := r.createRecorder(ctx, again, again); err != nil {
			return err
		}
		if _, err := r.expect(ctx, again, func(p affinity) bool { return p.CPUs.Size() == 1 && p.Mems.Equals(cpuset.New(0)) }, "want one CPU and the memory of node 0"); err != nil {
			return err
		}
		if err := r.remove(ctx, again); err != nil {
			return err
		}
		if err := r.othersOutside(ctx, busy, idle, late); err != nil {
			return err
		}
		if process == "plumbline-agent" { // for the next round
			if err := r.createRecorder(ctx, second, second); err != nil {
				return err
			}
			p, err := r.affinity(ctx, second)
			if err != nil {
				return err
			}
			at, err := r.now(ctx)
			if err != nil {
				return err
			}
			r.held[1] = interval{cpus: p.CPUs, begin: at}
		}
	}
	return nil
}

// closeInterval ends the time in which CPUs were exclusive: their pod is gone, or
// about to be deleted, and others may run there from now on.
func (r *run) closeInterval(ctx context.Context, i int) error {
	at, err := r.now(ctx)
	if err == nil {
		r.held[i].end = at
	}
	return err
}

// wholeRun compares what all three sources say of the whole time, and sees the CPUs
// come back.
func (r *run) wholeRun(ctx context.Context) error {
	fmt.Fprintln(r.Out, "\nThe whole time")
	want := fmt.Sprintf("Cpus_allowed_list: %s Mems_allowed_list: 1", r.held[0].cpus)
	lines, err := r.recorded(ctx, first)
	if err != nil {
		return err
	}
	r.report.Finding(len(lines) == 1 && lines[0] == want, first, "read of itself %q, want %q and nothing else", lines, want)
	if err := r.closeInterval(ctx, 0); err != nil {
		return err
	}
	all, err := r.samples(ctx)
	if err != nil {
		return err
	}
	bad := violations(all, r.held[:1])
	r.report.Finding(len(all) > 50 && len(bad) == 0, busy, "sampled %d times, %d times on CPU %s of pod %s", len(all), len(bad), r.held[0].cpus, first)
	if err := r.remove(ctx, first); err != nil {
		return err
	}
	return r.othersOutside(ctx, busy, idle, late)
}
