// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package misalign

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plumbline.dev/plumbline/internal/verify"
	"plumbline.dev/plumbline/internal/verify/evaluate"
	"plumbline.dev/plumbline/lab/scenario"
	"plumbline.dev/plumbline/lab/scenario/harness"
)

// Config is what a run needs of the cluster.
type Config struct {
	// The agent of the cluster's node verifies every second.
	harness.Cluster
	Kubectl scenario.Kubectl
	// Manifest is deploy/observe.yaml.
	Manifest string
}

// patience is how long anything may take, flagging how long a misalignment may: an
// interval, the second look, and what the API server takes.
const (
	patience = 2 * time.Minute
	flagging = 20 * time.Second
	poll     = 200 * time.Millisecond
)

type run struct {
	Config
	report harness.Report
	agents []agent
}

// Run goes through all of it, prints what it finds, and leaves nothing of its own.
func Run(ctx context.Context, c Config) error {
	r := &run{Config: c, report: harness.Report{Scenario: "proof", Out: c.Out}}
	return r.report.Verdict(harness.Run(ctx, patience, r.cleanUp, r.all))
}

func (r *run) all(ctx context.Context) error {
	before, err := r.hostState(ctx)
	if err != nil {
		return err
	}
	if err := r.installObserver(ctx); err != nil {
		return err
	}
	if r.agents, err = r.findAgents(ctx); err != nil {
		return err
	}
	if err := r.observer(ctx, before); err != nil {
		return err
	}
	if err := r.pods(ctx); err != nil {
		return err
	}
	if err := r.compareAgents(ctx); err != nil {
		return err
	}
	for _, i := range injections {
		if err := r.inject(ctx, i); err != nil {
			return fmt.Errorf("%s: %w", i.what, err)
		}
	}
	return nil
}

// observer checks that the observer could change nothing, and changed nothing.
func (r *run) observer(ctx context.Context, before []string) error {
	for _, a := range r.agents {
		if a.Name != "observing" {
			continue
		}
		open, err := r.writableFiles(ctx, a)
		if err != nil {
			return err
		}
		r.report.Finding(len(open) == 0, "the observer has nothing open that it could write to but its own socket", "%q", open)
	}
	after, err := r.hostState(ctx)
	if err != nil {
		return err
	}
	r.report.Finding(slices.Equal(before, after), "beside the observer the node is as before", "%d sockets, files and records", len(after))
	return nil
}

// compareAgents checks that both agents say the same of every pod, word for word.
func (r *run) compareAgents(ctx context.Context) error {
	var answers []map[string]verify.Pod
	for _, a := range r.agents {
		var answer map[string]verify.Pod
		err := harness.WaitFor(ctx, poll, patience, func() (bool, error) {
			var err error
			answer, err = r.verdicts(ctx, a)
			return err == nil && len(answer) == len(podClaims) && allAsClaimed(answer), err
		})
		if err != nil && !errors.Is(err, harness.ErrTimeout) {
			return err
		}
		r.report.Finding(err == nil, "the "+a.Name+" agent reports the pods as claimed", "%s", summary(answer))
		answers = append(answers, answer)
	}
	// When a thread last ran differs from look to look.
	threads := cmpopts.IgnoreSliceElements(func(f verify.Finding) bool { return strings.HasPrefix(f.What, "no thread of") })
	memory := cmpopts.IgnoreFields(verify.Component{}, "MemoryBytes")
	diff := cmp.Diff(answers[0], answers[1], threads, memory)
	r.report.Finding(diff == "", "both agents say the same", "%s", diff)
	return nil
}

func allAsClaimed(answer map[string]verify.Pod) bool {
	for _, p := range answer {
		if p.AsClaimed.Status != string(evaluate.True) {
			return false
		}
	}
	return true
}

func summary(answer map[string]verify.Pod) string {
	var words []string
	for name, p := range answer {
		words = append(words, fmt.Sprintf("%s %s (%s)", name, p.Verdict, p.Reason))
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

// inject makes the target pod misaligned, waits until both agents report it, undoes it,
// and waits for the contrary.
func (r *run) inject(ctx context.Context, i injection) error {
	id, err := r.containerID(ctx)
	if err != nil {
		return err
	}
	before, err := r.events(ctx)
	if err != nil {
		return err
	}
	if _, err := r.Shell(ctx, prelude+i.begin, id); err != nil {
		if strings.Contains(err.Error(), "exit code "+notHere) {
			fmt.Fprintf(r.Out, "  --     %s: this node has no such thing\n", i.what)
			return nil
		}
		return err
	}
	began := time.Now()
	reported, reportErr := r.waitForReports(ctx, i.code, metav1.ConditionFalse, before)
	took := time.Since(began)
	if _, err := r.Shell(ctx, prelude+i.end, id); err != nil {
		return err
	}
	if reportErr != nil && !errors.Is(reportErr, harness.ErrTimeout) {
		return reportErr
	}
	r.report.Finding(reportErr == nil, i.what, "%s after %.1fs", reported, took.Seconds())
	reported, err = r.waitForReports(ctx, evaluate.AsClaimed, metav1.ConditionTrue, before)
	if err != nil && !errors.Is(err, harness.ErrTimeout) {
		return err
	}
	r.report.Finding(err == nil, i.what+", and no more", "%s", reported)
	return nil
}

// waitForReports waits until both agents report the code, the target's claim has the
// condition, and there is an event of it for each agent. Of a misalignment there may be
// more: what an agent finds besides, such as a thread that ran elsewhere at one look, is
// another event.
func (r *run) waitForReports(ctx context.Context, code evaluate.Code, condition metav1.ConditionStatus, before map[string]int) (string, error) {
	var words []string
	event := string(evaluate.WordMisaligned)
	if code == evaluate.AsClaimed {
		event = string(evaluate.AsClaimed)
	}
	err := harness.WaitFor(ctx, poll, flagging, func() (bool, error) {
		words = nil
		good := true
		for _, a := range r.agents {
			answer, err := r.verdicts(ctx, a)
			if err != nil {
				return false, err
			}
			good = good && answer[target].Reason == string(code)
			words = append(words, fmt.Sprintf("the %s agent says %s", a.Name, answer[target].Reason))
		}
		status, err := r.condition(ctx)
		if err != nil {
			return false, err
		}
		now, err := r.events(ctx)
		if err != nil {
			return false, err
		}
		events := now[event] - before[event]
		words = append(words, fmt.Sprintf("the claim AsClaimed %s, %d events %s", status, events, event))
		return good && status == string(condition) && (events == len(r.agents) || code != evaluate.AsClaimed && events > len(r.agents)), nil
	})
	return strings.Join(words, ", "), err
}
