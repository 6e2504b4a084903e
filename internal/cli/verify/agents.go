// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/verify"
)

// agents asks the agent of a node.
type agents struct{ cmdutil.Agents }

func (a agents) look(ctx context.Context, node, namespace string, pods []corev1.Pod) (*verify.Report, error) {
	command := []string{"plumbline-agent", "verify"}
	if namespace != "" {
		command = append(command, "--namespace="+namespace)
	}
	if len(pods) == 1 {
		command = append(command, "--pod="+pods[0].Name)
	}
	out, err := a.Ask(ctx, node, command...)
	if err != nil {
		return nil, err
	}
	var report verify.Report
	if err := json.Unmarshal(out, &report); err != nil {
		return nil, fmt.Errorf("read the answer of the agent on node %s: %w", node, err)
	}
	return &report, nil
}
