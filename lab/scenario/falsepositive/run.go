// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package falsepositive

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

// Config is what a run needs of the cluster.
type Config struct {
	harness.Cluster
	// Pods is how many live, Lanes how many at a time: a NIC each.
	Pods, Lanes int
	Seed        uint64
}

// patience is how long a pod may take to run, or to go.
const patience = 2 * time.Minute

type run struct {
	Config
	progress *harness.Progress
	done     atomic.Int64
}

// Run puts the pods through their lives, prints what was said of them, and leaves
// nothing of its own.
func Run(ctx context.Context, c Config) error {
	r := &run{Config: c, progress: harness.NewProgress(c.Out)}
	return harness.Run(ctx, patience, r.cleanUp, r.all)
}

func (r *run) all(ctx context.Context) error {
	if err := r.setUp(ctx); err != nil {
		return err
	}
	before, err := r.verifyCounts(ctx)
	if err != nil {
		return err
	}
	watcher, err := Watch(ctx, r.Client, namespace)
	if err != nil {
		return err
	}
	began := time.Now()
	asked, answers, err := r.runPods(ctx)
	reports := watcher.Stop()
	if err != nil {
		return err
	}
	after, err := r.verifyCounts(ctx)
	if err != nil {
		return err
	}
	t := summary{
		pods: int(r.done.Load()), took: time.Since(began), seed: r.Seed, reports: reports, asked: asked,
		verified: verifyCounts{verifications: after.verifications - before.verifications, misaligned: after.misaligned - before.misaligned},
	}
	t.reports.Alarms = append(t.reports.Alarms, answers...)
	return t.write(r.Out)
}

// runPods runs all pods, while the agent is asked for its verdict.
func (r *run) runPods(ctx context.Context) (asked int, answers []Alarm, err error) {
	polling, stop := context.WithCancel(ctx)
	defer stop()
	var pollErr error
	var poller, lanes sync.WaitGroup
	poller.Go(func() { asked, answers, pollErr = r.pollVerdicts(polling) })
	errs := make([]error, r.Lanes)
	for i, lives := range plan(r.Seed, r.Pods, r.Lanes) {
		lanes.Go(func() { errs[i] = r.lane(ctx, lives) })
	}
	lanes.Wait()
	stop()
	poller.Wait()
	return asked, answers, errors.Join(append(errs, pollErr)...)
}

// lane takes one pod after the other through its life.
func (r *run) lane(ctx context.Context, lives []life) error {
	for _, l := range lives {
		if err := r.runPod(ctx, l); err != nil {
			return fmt.Errorf("pod %s, which %s: %w", l.name(), l.kind, err)
		}
		r.progress.Done(int(r.done.Add(1)), r.Pods)
	}
	return nil
}

func (r *run) runPod(ctx context.Context, l life) error {
	pods := r.Client.CoreV1().Pods(namespace)
	if _, err := pods.Create(ctx, r.manifest(l), metav1.CreateOptions{}); err != nil {
		return err
	}
	if l.kind != neverRuns {
		if err := r.until(ctx, "to run", func() (bool, error) {
			p, err := pods.Get(ctx, l.name(), metav1.GetOptions{})
			return err == nil && hasRun(p), err
		}); err != nil {
			return err
		}
	}
	if err := harness.Sleep(ctx, l.runsFor); err != nil {
		return err
	}
	grace := int64(1)
	if l.kind == isForced {
		grace = 0
	}
	if err := harness.DeletePod(ctx, r.Client, namespace, l.name(), grace); err != nil {
		return err
	}
	return r.until(ctx, "to go", func() (bool, error) { return harness.PodGone(ctx, r.Client, namespace, l.name()) })
}

func (r *run) until(ctx context.Context, what string, ask func() (bool, error)) error {
	err := harness.WaitFor(ctx, 200*time.Millisecond, patience, ask)
	if errors.Is(err, harness.ErrTimeout) {
		return fmt.Errorf("it takes longer than %s %s", patience, what)
	}
	return err
}

// cleanUp removes what a run makes.
func (r *run) cleanUp(ctx context.Context) error {
	return harness.DeleteNamespace(ctx, r.Client, namespace, patience)
}
