// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package egx

import (
	"context"
	"errors"
	"strings"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

// operator is the Deployment of plumbline's operator, usualOperators how many the chart has.
const (
	operator       = "plumbline-operator"
	usualOperators = "2"
)

// withoutOperator has the second pod begin anew while no operator is there: the node gives
// addresses out of its block by itself.
func (r *run) withoutOperator(ctx context.Context) (err error) {
	if err := r.scaleOperator(ctx, "0"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.scaleOperator(context.WithoutCancel(ctx), usualOperators)) }()
	err = harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		left, err := r.Kubectl.Run(ctx, "get", "pods", "-n", plumbline, "-o", "name")
		return !strings.Contains(left, operator), err
	})
	if err != nil {
		return err
	}
	if err := r.endPod(ctx, secondPod); err != nil {
		return err
	}
	if err := r.started(ctx, secondPod); err != nil {
		return err
	}
	now := r.addresses[secondPod]
	r.report.Finding(now.IsValid() && now != r.addresses[firstPod], "without an operator", "a new %s has %s", secondPod, now)
	return r.ping(ctx, secondPod, r.addresses[firstPod])
}

func (r *run) scaleOperator(ctx context.Context, n string) error {
	_, err := r.Kubectl.Run(ctx, "scale", "deployment", "-n", plumbline, operator, "--replicas", n)
	return err
}

// wakeOperator scales an operator up that a run left away which was killed.
func (r *run) wakeOperator(ctx context.Context) error {
	n, err := r.Kubectl.Run(ctx, "get", "deployment", "-n", plumbline, operator, "-o", "jsonpath={.spec.replicas}")
	if err != nil || n != "0" {
		return err
	}
	return r.scaleOperator(ctx, usualOperators)
}
