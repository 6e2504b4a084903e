// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package falsepositive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

// Config is what a run needs of the cluster.
type Config struct {
	Client kubernetes.Interface
	// Node is where the pods run.
	Node string
	// Shell runs a script by sh as root on the node. One runs at a time.
	Shell func(ctx context.Context, script string, args ...string) (string, error)
	// Image has a shell.
	Image string
	// Pods is how many live, Lanes how many at a time: a NIC each.
	Pods, Lanes int
	Seed        uint64
	Out         io.Writer
}

// ErrFailed is what a run ends with that heard an alarm, or nothing at all. What
// it was has been printed by then.
var ErrFailed = errors.New("alarms: FAIL")

// patience is how long a pod may take to run, or to go.
const patience = 2 * time.Minute

// progressEvery is how often a run that goes well prints its progress.
const progressEvery = 30 * time.Second

type run struct {
	Config
	done atomic.Int64
}

// Run puts the pods through their lives, prints what was said of them, and leaves
// nothing of its own.
func Run(ctx context.Context, c Config) (err error) {
	r := &run{Config: c}
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		err = errors.Join(err, r.cleanUp(clean))
	}()
	if err := r.cleanUp(ctx); err != nil { // of a run before that was killed
		return err
	}
	if err := r.setUp(ctx); err != nil {
		return err
	}
	before, err := r.looked(ctx)
	if err != nil {
		return err
	}
	watcher, err := Watch(ctx, c.Client, namespace)
	if err != nil {
		return err
	}
	began := time.Now()
	asked, answers, err := r.live(ctx)
	heard := watcher.Stop()
	if err != nil {
		return err
	}
	after, err := r.looked(ctx)
	if err != nil {
		return err
	}
	t := summary{
		pods: int(r.done.Load()), took: time.Since(began), seed: c.Seed, heard: heard, asked: asked,
		looked: verifyCounts{looks: after.looks - before.looks, misaligned: after.misaligned - before.misaligned},
	}
	t.heard.Alarms = append(t.heard.Alarms, answers...)
	return t.write(c.Out)
}

// live has all pods live, while the agent is asked.
func (r *run) live(ctx context.Context) (asked int, answers []Alarm, err error) {
	asking, stop := context.WithCancel(ctx)
	defer stop()
	var askErr error
	var asker, lanes sync.WaitGroup
	asker.Go(func() { asked, answers, askErr = r.ask(asking) })
	errs := make([]error, r.Lanes)
	for i, lives := range plan(r.Seed, r.Pods, r.Lanes) {
		lanes.Go(func() { errs[i] = r.lane(ctx, lives) })
	}
	lived := make(chan struct{})
	go func() { lanes.Wait(); close(lived) }()
	r.tell(lived)
	stop()
	asker.Wait()
	return asked, answers, errors.Join(append(errs, askErr)...)
}

// tell says from time to time how far the pods have come.
func (r *run) tell(lived <-chan struct{}) {
	began, ticks := time.Now(), time.NewTicker(progressEvery)
	defer ticks.Stop()
	for {
		select {
		case <-lived:
			return
		case <-ticks.C:
			fmt.Fprintf(r.Out, "  · %d of %d after %s\n", r.done.Load(), r.Pods, time.Since(began).Round(time.Second))
		}
	}
}

// lane takes one pod after the other through its life.
func (r *run) lane(ctx context.Context, lives []life) error {
	for _, l := range lives {
		if err := r.one(ctx, l); err != nil {
			return fmt.Errorf("pod %s, which %s: %w", l.name(), l.kind, err)
		}
		r.done.Add(1)
	}
	return nil
}

func (r *run) one(ctx context.Context, l life) error {
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
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(l.linger):
	}
	grace := int64(1)
	if l.kind == isForced {
		grace = 0
	}
	err := pods.Delete(ctx, l.name(), metav1.DeleteOptions{GracePeriodSeconds: &grace})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return r.until(ctx, "to go", func() (bool, error) {
		_, err := pods.Get(ctx, l.name(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
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
