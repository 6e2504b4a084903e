// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"plumbline.dev/plumbline/lab/scenario/falsepositive"
	"plumbline.dev/plumbline/lab/scenario/harness"
)

// Config says what to run where.
type Config struct {
	Client kubernetes.Interface
	Node   Node
	// Image runs in the pods: it must have tail.
	Image string
	// PauseAPIServer stops the API server until resume is called.
	PauseAPIServer func() (resume func() error, err error)
	Faults         []Fault
	Cycles         int
	Seed           uint64
	Out            io.Writer
	// RestartPolicy is the pods'; empty means Always.
	RestartPolicy corev1.RestartPolicy
}

// Cluster is what a scenario without faults needs of it.
func (c Config) Cluster() harness.Cluster {
	return harness.Cluster{Client: c.Client, Node: c.Node.Name, Shell: c.Node.Shell, Image: c.Image, Out: c.Out}
}

// errFailed is what a run ends with in which something was lost.
var errFailed = fmt.Errorf("soak: %w", harness.ErrFailed)

// settle is how long pods may take to run with their NICs, and the node to be as
// before: an emulated node that has just lost its container runtime needs half.
const settle = 2 * time.Minute

// run is one run under way.
type run struct {
	config      Config
	watch       *Watcher
	before      State
	attribution *Attribution
	outage      outage
	// agentInUse is held by every lane that may end a sandbox, or for all lanes by one
	// that ends the agent (see killAgent).
	agentInUse *semaphore.Weighted
	// background has the lanes, and what waits for the end of a pod whose lane has gone
	// on to the next.
	background *errgroup.Group

	// reading is held while the state is read, readFrom is when that began.
	reading  sync.Mutex
	readFrom time.Time

	// reporting guards the summary of all lanes.
	reporting sync.Mutex
	summary   Summary
	progress  *harness.Progress
}

// Run goes through all cycles, prints the summary, and leaves nothing of its own.
func Run(ctx context.Context, c Config) error {
	return frame(ctx, c, func(ctx context.Context, r *run) error {
		plan := Plan(c.Seed, c.Cycles, c.Faults, c.Node.StandIns != "")
		watcher, err := falsepositive.Watch(ctx, c.Client, namespace)
		if err != nil {
			return err
		}
		err = r.watching(ctx, func() error { return r.runLanes(ctx, plan) })
		if err != nil && !errors.Is(err, harness.ErrFailed) {
			_ = r.wrong(err.Error())
		}
		r.summary.addAlarms(watcher.Stop(), plan)
		return r.summary.write(c.Out, err)
	})
}

// frame makes what a run needs, reads the node as it is before, and removes what the
// run made.
func frame(ctx context.Context, c Config, do func(context.Context, *run) error) error {
	r := newRun(c)
	if err := r.setUp(ctx); err != nil {
		return err
	}
	return harness.Run(ctx, settle, r.cleanUp, func(ctx context.Context) error {
		if err := r.readBefore(ctx); err != nil {
			return err
		}
		err := do(ctx, r)
		if err == nil && len(r.summary.Wrong) > 0 {
			err = errFailed
		}
		return err
	})
}

func newRun(c Config) *run {
	return &run{
		config: c, watch: NewWatcher(), summary: newSummary(c), progress: harness.NewProgress(c.Out),
		outage: outage{pause: c.PauseAPIServer}, agentInUse: semaphore.NewWeighted(int64(c.Node.Lanes)),
	}
}

// readBefore reads the node's state before the first pod.
func (r *run) readBefore(ctx context.Context) (err error) {
	r.before, err = r.config.Node.state(ctx)
	r.attribution = NewAttribution(r.before)
	return err
}

// watching does something while samples are taken of the node.
func (r *run) watching(ctx context.Context, do func() error) error {
	sampling, stop := context.WithCancel(ctx)
	sampled := make(chan error, 1)
	go func() { sampled <- r.takeSamples(sampling) }()
	err := do()
	stop()
	err = errors.Join(err, <-sampled)
	r.summary.Wrong = append(r.summary.Wrong, r.watch.Wrong()...)
	r.summary.Samples = r.watch.Samples()
	return err
}

// takeSamples takes samples until its context ends.
func (r *run) takeSamples(ctx context.Context) error {
	for {
		uids, faults := r.watch.uids()
		sample, err := r.config.Node.sample(ctx, uids)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		r.watch.see(sample, faults)
		if harness.Sleep(ctx, 200*time.Millisecond) != nil {
			return nil
		}
	}
}

// allRun waits until every pod runs with its NIC.
func (r *run) allRun(ctx context.Context, pods []*pod, when string) error {
	var missing []string
	err := r.until(ctx, func() (bool, error) {
		missing = nil
		for _, p := range pods {
			_, _, nics, settled := r.watch.place(p.uid)
			ready, why, err := r.isReady(ctx, p.name)
			if err != nil {
				return false, err
			}
			if why == failed {
				return false, r.wrong(p.cycle.String() + ": the pod failed")
			}
			if !settled || !ready {
				missing = append(missing, fmt.Sprintf("%s: no pod with its NIC within %s, %s: ready=%v (%s), NICs %v", p.cycle, settle, when, ready, why, nics))
			}
		}
		return len(missing) == 0, nil
	})
	if errors.Is(err, harness.ErrTimeout) {
		return r.wrong(missing...)
	}
	return err
}

// asBefore waits until pods and claims are gone and the whole node is as it was.
func (r *run) asBefore(ctx context.Context) error {
	var differences []string
	err := r.until(ctx, func() (bool, error) {
		left, err := r.left(ctx)
		if err != nil || left > 0 {
			differences = []string{fmt.Sprintf("%d pods and claims do not go", left)}
			return false, err
		}
		now, err := r.config.Node.state(ctx)
		if err != nil {
			return false, err
		}
		differences = Compare(r.before, now)
		r.summary.Unused = now.Unused
		return len(differences) == 0, nil
	})
	if errors.Is(err, harness.ErrTimeout) {
		return r.wrong(differences...)
	}
	return err
}

// wrong records what must not be, and returns what the run ends with.
func (r *run) wrong(lines ...string) error {
	r.reporting.Lock()
	defer r.reporting.Unlock()
	r.summary.Wrong = append(r.summary.Wrong, lines...)
	return errFailed
}

// until waits until a condition is true.
func (r *run) until(ctx context.Context, condition func() (bool, error)) error {
	return harness.WaitFor(ctx, 300*time.Millisecond, settle, condition)
}

// cleanUp removes what a run leaves, but for the namespace with its templates.
func (r *run) cleanUp(ctx context.Context) error {
	var grace int64 = 1
	err := r.config.Client.CoreV1().Pods(namespace).DeleteCollection(ctx,
		metav1.DeleteOptions{GracePeriodSeconds: &grace}, metav1.ListOptions{})
	if err == nil {
		err = r.until(ctx, func() (bool, error) {
			left, err := r.left(ctx)
			return left == 0, err
		})
	}
	if err != nil {
		return fmt.Errorf("remove the pods of namespace %s: %w", namespace, err)
	}
	return nil
}
