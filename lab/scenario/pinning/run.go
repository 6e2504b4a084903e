// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package pinning

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

// Config is what a run needs of the cluster.
type Config struct {
	Client kubernetes.Interface
	// Node is where the pods run; it has two NUMA nodes of two CPUs at least.
	Node string
	// Shell runs a script by sh as root on the node. One runs at a time.
	Shell func(ctx context.Context, script string, args ...string) (string, error)
	// Image has a shell.
	Image string
	Out   io.Writer
}

// errWrong is what a run ends with when a fact contradicts a claim. What was
// wrong has been printed by then.
var errWrong = errors.New("cpus: FAIL, a fact contradicts a claim")

// patience is how long anything may take: the node's processors may be emulated.
const patience = 4 * time.Minute

// poll is how long until something is asked again.
const poll = 300 * time.Millisecond

type run struct {
	Config
	nodes map[int]cpuset.CPUSet
	wrong int
	// held is when which CPUs were exclusive, by the node's uptime.
	held []interval
}

// interval is a time in which nobody else may run on CPUs.
type interval struct {
	cpus       cpuset.CPUSet
	begin, end float64
}

// Run takes the pods through it and prints what it finds. It leaves nothing of
// its own in the cluster.
func Run(ctx context.Context, c Config) (err error) {
	r := &run{Config: c}
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		err = errors.Join(err, r.stopSampling(clean), r.cleanUp(clean))
		if err == nil {
			fmt.Fprintln(c.Out, "\ncpus: PASS")
		} else {
			fmt.Fprintln(c.Out, "\ncpus: FAIL")
		}
	}()
	if err := r.cleanUp(ctx); err != nil { // of a run before that was killed
		return err
	}
	if r.nodes, err = r.readNodes(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{r.others, r.claims, r.update, r.restarts, r.end} {
		began := time.Now()
		if err := step(ctx); err != nil {
			return err
		}
		fmt.Fprintf(c.Out, "  after %s\n", time.Since(began).Round(time.Second))
	}
	if r.wrong > 0 {
		return errWrong
	}
	return nil
}

// report prints one finding.
func (r *run) report(ok bool, what, format string, args ...any) {
	word := "ok   "
	if !ok {
		word = "WRONG"
		r.wrong++
	}
	fmt.Fprintf(r.Out, "  %s  %s: %s\n", word, what, fmt.Sprintf(format, args...))
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
	r.report(err == nil, pod, "CPUs %s, memory nodes %s; %s", p.CPUs, p.Mems, want)
	return p, nil
}

func (r *run) until(ctx context.Context, ask func() (bool, error)) error {
	return harness.WaitFor(ctx, poll, patience, ask)
}
