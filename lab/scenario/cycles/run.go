// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cycles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"plumbline.dev/plumbline/lab/scenario/alarms"
	"plumbline.dev/plumbline/lab/scenario/await"
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
	// Patience is how long, in seconds, a pod may be without its NIC after the
	// agent's return.
	Patience float64
	Out      io.Writer
	// RestartPolicy is the pods'; empty means Always.
	RestartPolicy corev1.RestartPolicy
}

// ErrFailed is what a run ends with in which something was lost. What it was
// has been printed by then.
var ErrFailed = errors.New("cycles: FAIL")

// settle is how long pods may take to run with their NICs, and the node to be as
// before: an emulated node that has just lost its container runtime needs half.
const settle = 2 * time.Minute

// sayEvery is how long nothing is told of a run that goes well.
const sayEvery = 30 * time.Second

// run is one run under way.
type run struct {
	config Config
	watch  *Watcher
	tally  Tally
	before State
}

// Run goes through all cycles, prints the tally, and leaves nothing of its own.
func Run(ctx context.Context, c Config) error {
	r, err := start(ctx, c)
	if err != nil {
		return err
	}
	plan := Plan(c.Seed, c.Cycles, c.Faults, c.Node.StandIns != "")
	listener, err := alarms.Watch(ctx, c.Client, namespace)
	if err != nil {
		return err
	}
	err = r.watching(ctx, func() error { return r.rounds(ctx, plan) })
	r.tally.hear(listener.Stop(), plan)
	r.tally.write(c.Out)
	return r.end(ctx, err)
}

// start makes what a run needs and reads the node as it is.
func start(ctx context.Context, c Config) (*run, error) {
	r := &run{config: c, watch: NewWatcher(c.Patience), tally: newTally(c)}
	if err := r.setUp(ctx); err != nil {
		return nil, err
	}
	if err := r.clean(ctx); err != nil { // of a run that was killed
		return nil, err
	}
	var err error
	r.before, err = c.Node.state(ctx)
	return r, err
}

// watching does something while the node is looked at.
func (r *run) watching(ctx context.Context, do func() error) error {
	looking, stop := context.WithCancel(ctx)
	looked := make(chan error, 1)
	go func() { looked <- r.look(looking) }()
	err := do()
	stop()
	err = errors.Join(err, <-looked)
	r.tally.Wrong = append(r.tally.Wrong, r.watch.Wrong()...)
	r.tally.WorstRepair, r.tally.Samples = r.watch.Worst()
	return err
}

// end removes what the run made, however it ended.
func (r *run) end(ctx context.Context, err error) error {
	if err == nil && len(r.tally.Wrong) > 0 {
		err = ErrFailed
	}
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), settle)
	defer cancel()
	return errors.Join(err, r.clean(clean))
}

// look takes samples until it is told to stop.
func (r *run) look(ctx context.Context) error {
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
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// rounds takes as many cycles at a time as the node has NICs.
func (r *run) rounds(ctx context.Context, plan []Cycle) error {
	done, began, said := 0, time.Now(), time.Now()
	for lanes := range slices.Chunk(plan, r.config.Node.Lanes) {
		good, err := r.round(ctx, lanes)
		if err != nil || !good {
			return err
		}
		if done += len(lanes); time.Since(said) > sayEvery {
			said = time.Now()
			fmt.Fprintf(r.config.Out, "  · %d of %d after %s\n", done, len(plan), time.Since(began).Round(time.Second))
		}
	}
	return nil
}

// round lives the lives of some pods. It says whether the node is fit for more.
func (r *run) round(ctx context.Context, lanes []Cycle) (bool, error) {
	var pods []*pod
	for _, c := range lanes {
		p, err := r.create(ctx, c)
		if err != nil {
			return false, err
		}
		pods = append(pods, p)
	}
	if err := r.faults(ctx, pods, Creating); err != nil {
		return false, err
	}
	if err := r.allRun(ctx, pods, "after the faults of creation"); err != nil {
		return false, err
	}
	for _, p := range pods {
		if p.cycle.Phase != Running {
			continue
		}
		if err := r.fault(ctx, p); err != nil {
			return false, err
		}
		if err := r.allRun(ctx, pods, p.cycle.String()); err != nil {
			return false, err
		}
	}
	for _, p := range pods {
		if err := r.delete(ctx, p.name, 1); err != nil {
			return false, err
		}
	}
	if err := r.faults(ctx, pods, Deleting); err != nil {
		return false, err
	}
	good, err := r.asBefore(ctx, lanes)
	for _, p := range pods {
		r.watch.remove(p.uid)
		r.tally.done(p.cycle)
	}
	return good, err
}

// faults injects those of one phase, one after the other.
func (r *run) faults(ctx context.Context, pods []*pod, phase Phase) error {
	for _, p := range pods {
		if p.cycle.Phase == phase {
			if err := r.fault(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) fault(ctx context.Context, p *pod) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(p.cycle.Delay):
	}
	happened, err := r.inject(ctx, p)
	if err != nil {
		return fmt.Errorf("%s: %w", p.cycle, err)
	}
	if !happened {
		r.tally.Skipped = append(r.tally.Skipped, p.cycle.String())
	}
	return nil
}

// allRun waits until every pod that is owed one runs with its NIC.
func (r *run) allRun(ctx context.Context, pods []*pod, when string) error {
	var missing []string
	err := r.until(ctx, func() (bool, error) {
		missing = nil
		for _, p := range pods {
			if p.deleted {
				continue
			}
			_, _, nics, settled := r.watch.place(p.uid)
			ready, why, err := r.isReady(ctx, p.name)
			if err != nil {
				return false, err
			}
			if why == failed {
				r.tally.Wrong = append(r.tally.Wrong, p.cycle.String()+": the pod failed")
				return false, ErrFailed
			}
			if !settled || !ready {
				missing = append(missing, fmt.Sprintf("%s: ready=%v (%s), NICs %v", p.cycle, ready, why, nics))
			}
		}
		return len(missing) == 0, nil
	})
	if errors.Is(err, await.ErrLate) {
		for _, m := range missing {
			r.tally.Wrong = append(r.tally.Wrong, fmt.Sprintf("no pod with its NIC within %s, %s: %s", settle, when, m))
		}
		return ErrFailed
	}
	return err
}

// asBefore waits until pods and claims are gone and the node is as it was.
func (r *run) asBefore(ctx context.Context, lanes []Cycle) (bool, error) {
	var differences []string
	left := 0
	err := r.until(ctx, func() (bool, error) {
		var err error
		if left, err = r.left(ctx); err != nil || left > 0 {
			return false, err
		}
		now, err := r.config.Node.state(ctx)
		if err != nil {
			return false, err
		}
		differences = Compare(r.before, now)
		return len(differences) == 0, nil
	})
	if !errors.Is(err, await.ErrLate) {
		return err == nil, err
	}
	cycles := fmt.Sprintf("cycles %d to %d", lanes[0].Number, lanes[len(lanes)-1].Number)
	if left > 0 {
		differences = append(differences, fmt.Sprintf("%d pods and claims do not go", left))
	}
	for _, d := range differences {
		r.tally.Wrong = append(r.tally.Wrong, cycles+": "+d)
	}
	return false, nil
}

// until asks until the answer is yes.
func (r *run) until(ctx context.Context, ask func() (bool, error)) error {
	return await.Until(ctx, 300*time.Millisecond, settle, ask)
}

// clean removes what a run leaves.
func (r *run) clean(ctx context.Context) error {
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

// Compare says what of the node is no longer as it was.
func Compare(before, now State) []string {
	var differences []string
	for _, line := range before.Lines {
		if !slices.Contains(now.Lines, line) {
			differences = append(differences, "gone or changed: "+line)
		}
	}
	for _, line := range now.Lines {
		if !slices.Contains(before.Lines, line) {
			differences = append(differences, "new: "+strings.TrimSpace(line))
		}
	}
	if now.Namespaces > before.Namespaces {
		differences = append(differences, fmt.Sprintf("the agent holds %d network namespaces, %d before", now.Namespaces, before.Namespaces))
	}
	return differences
}
