// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

// The runtime's socket of NRI under another name: who looks finds none, and who has it
// open notices nothing.
const (
	breakHost = "mv /run/nri/nri.sock /run/nri/nri.sock.away"
	mendHost  = "[ ! -e /run/nri/nri.sock.away ] || mv /run/nri/nri.sock.away /run/nri/nri.sock"
)

// breakHost breaks the host and mends it: the node must say so each time, and so must
// plumbline doctor and Prometheus.
func (r *run) breakHost(ctx context.Context) error {
	for _, step := range []struct {
		what, script string
		ready        corev1.ConditionStatus
		told         string
	}{
		{"a whole host", "true", corev1.ConditionTrue, ""},
		{"a host without its runtime's NRI", breakHost, corev1.ConditionFalse, "/run/nri/nri.sock"},
		{"the host mended", mendHost, corev1.ConditionTrue, ""},
	} {
		if _, err := r.Shell(ctx, step.script); err != nil {
			return err
		}
		var condition corev1.NodeCondition
		err := harness.WaitFor(ctx, poll, patience, func() (bool, error) {
			var err error
			condition, err = r.hostReady(ctx)
			return condition.Status == step.ready && strings.Contains(condition.Message, step.told), err
		})
		if err != nil && !errors.Is(err, harness.ErrTimeout) {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		r.report.Finding(err == nil, step.what, "node %s has %s=%s: %s", r.Node, condition.Type, condition.Status, condition.Message)
		out, err := r.typed(ctx, "plumbline doctor -A")
		// It says by its exit status whether something is wrong.
		told := (err == nil) == (step.ready == corev1.ConditionTrue) && strings.Contains(out, step.told)
		r.report.Finding(told, "plumbline doctor", "%s", lastLine(out))
		if err := r.alerted(ctx, step.ready == corev1.ConditionFalse); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// hostReady is the node's condition of what its agent found.
func (r *run) hostReady(ctx context.Context) (corev1.NodeCondition, error) {
	node, err := r.Client.CoreV1().Nodes().Get(ctx, r.Node, metav1.GetOptions{})
	if err != nil {
		return corev1.NodeCondition{}, err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == "plumbline.dev/HostReady" {
			return condition, nil
		}
	}
	return corev1.NodeCondition{}, nil
}
