// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"k8s.io/client-go/kubernetes"

	"plumbline.dev/plumbline/deploy"
)

// Client returns the administrator's client.
func (c *Cluster) Client() (*kubernetes.Clientset, error) {
	cp, err := c.find()
	if err != nil {
		return nil, err
	}
	return clientOf(cp)
}

// PauseAPIServer stops the API server until resume is called.
func (c *Cluster) PauseAPIServer() (resume func() error, err error) {
	cp, err := c.find()
	if err != nil {
		return nil, err
	}
	return cp.Pause("kube-apiserver")
}

// NodeShell runs a script by sh as root on the node and returns what it printed.
func (c *Cluster) NodeShell(ctx context.Context, script string, args ...string) (string, error) {
	var out, complaint bytes.Buffer
	argv := append([]string{"/bin/sh", "-c", script, "sh"}, args...)
	code, err := c.Run(ctx, argv, &out, &complaint)
	if err != nil {
		return "", err
	}
	if code != 0 {
		return "", fmt.Errorf("script on the node: exit code %d: %s", code, strings.TrimSpace(complaint.String()))
	}
	return out.String(), nil
}

// RollAgent replaces the agent's pod on every node, one after the other, as an
// upgrade does, and waits for the new ones.
func (c *Cluster) RollAgent(ctx context.Context) error {
	agent := []string{"-n", deploy.Namespace, "daemonset/" + deploy.AgentServiceAccount}
	if err := c.pipe(ctx, nil, append([]string{"rollout", "restart"}, agent...)...); err != nil {
		return err
	}
	return c.pipe(ctx, nil, append([]string{"rollout", "status", "--timeout=3m"}, agent...)...)
}
