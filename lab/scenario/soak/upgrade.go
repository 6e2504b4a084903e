// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

// Upgrade creates and deletes pods for as long as roll takes, which replaces the
// agent, and fails when one of them fails: they are not restarted. It prints how
// many there were.
func Upgrade(ctx context.Context, c Config, roll func(context.Context) error) error {
	c.RestartPolicy = corev1.RestartPolicyNever
	report := harness.Report{Scenario: "upgrade", Out: c.Out}
	err := frame(ctx, c, func(ctx context.Context, r *run) error {
		pods, slowest := 0, time.Duration(0)
		rolled := make(chan error, 1)
		go func() { rolled <- roll(ctx) }()
		err := r.watching(ctx, func() error {
			for done := false; !done; {
				select {
				case err := <-rolled:
					if err != nil {
						return err
					}
					done = true // and one more round, under the new agent
				default:
				}
				began := time.Now()
				made, err := r.runRound(ctx, pods)
				if err != nil {
					return err
				}
				pods, slowest = pods+made, max(slowest, time.Since(began))
			}
			return r.asBefore(ctx)
		})
		fmt.Fprintf(c.Out, "  %d pods lived while the agent was replaced; %d at a time took %.1fs at most\n", pods, c.Node.Lanes, slowest.Seconds())
		report.Wrong(r.summary.Wrong...)
		return err
	})
	if err == nil {
		fmt.Fprintln(c.Out, "  ok  no pod failed, 0 NICs lost")
	}
	return report.Verdict(err)
}

// runRound takes one pod for each of the node's NICs through its life.
func (r *run) runRound(ctx context.Context, before int) (made int, err error) {
	var pods []*pod
	for i := range r.config.Node.Lanes {
		p, err := r.create(ctx, Cycle{Number: before + i + 1, Fault: "upgrade", Phase: Running, Named: i%2 == 0}, templateName)
		if err != nil {
			return len(pods), err
		}
		pods = append(pods, p)
	}
	if err := r.allRun(ctx, pods, "during the upgrade"); err != nil {
		return len(pods), err
	}
	for _, p := range pods {
		if err := harness.DeletePod(ctx, r.config.Client, namespace, p.name, 1); err != nil {
			return len(pods), err
		}
	}
	err = r.until(ctx, func() (bool, error) {
		left, err := r.left(ctx)
		return left == 0, err
	})
	for _, p := range pods {
		r.watch.remove(p.uid)
	}
	return len(pods), err
}
