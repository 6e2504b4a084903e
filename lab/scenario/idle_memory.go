// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plumbline.dev/plumbline/deploy"
)

// settle is how long the agent is left alone before it is measured: its first
// garbage is collected by then.
const settle = 30 * time.Second

// IdleAgent returns the resident memory in bytes of the agent on the node while
// nothing holds a claim (VmRSS of /proc/<pid>/status).
func (d Demo) IdleAgent(ctx context.Context) (resident int64, err error) {
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait)
		defer cancel()
		err = errors.Join(err, d.stopProbe(clean))
	}()
	if err := d.startProbe(ctx); err != nil {
		return 0, err
	}
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(settle):
	}
	pid, err := d.agentProcess(ctx)
	if err != nil {
		return 0, err
	}
	const vmRSS = `awk '/^VmRSS:/ { print $2 }' "/proc/$1/status"`
	text, err := d.Kubectl.Shell(ctx, probeNamespace, probePod, vmRSS, pid)
	if err != nil {
		return 0, fmt.Errorf("read the agent's memory: %w", err)
	}
	kibibytes, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read the agent's memory: %w", err)
	}
	return kibibytes << 10, nil
}

// agentProcess finds the process of the agent on the node.
func (d Demo) agentProcess(ctx context.Context) (string, error) {
	var pods corev1.PodList
	err := d.Kubectl.Get(ctx, &pods, "pods", "-n", deploy.Namespace, "-l", "app.kubernetes.io/component=agent", "--field-selector", "spec.nodeName="+d.Node)
	if err != nil {
		return "", err
	}
	if len(pods.Items) != 1 || len(pods.Items[0].Status.ContainerStatuses) != 1 {
		return "", fmt.Errorf("find the agent: %d pods in %s on %s, want one of one container", len(pods.Items), deploy.Namespace, d.Node)
	}
	_, id, _ := strings.Cut(pods.Items[0].Status.ContainerStatuses[0].ContainerID, "://")
	pid, err := d.Kubectl.Shell(ctx, probeNamespace, probePod, onNodeScript, id)
	if err != nil {
		return "", fmt.Errorf("find the agent's process: %w", err)
	}
	return strings.TrimSpace(pid), nil
}
