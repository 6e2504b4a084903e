// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"plumbline.dev/plumbline/lab/controlplane"
)

// join waits for the kubelet to register its node, describes it to the API server as
// its cloud would, and waits for it to be Ready.
func (c *Cluster) join(ctx context.Context, cp *controlplane.ControlPlane, cloud cloud) error {
	client, err := clientOf(cp)
	if err != nil {
		return err
	}
	nodes := client.CoreV1().Nodes()
	described, reason := false, "the kubelet has not registered"
	err = wait.PollUntilContextCancel(ctx, 500*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		node, err := nodes.Get(ctx, cloud.node, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if !described {
			if err := cloud.describe(ctx, client); err != nil {
				return false, err
			}
			described = true
		}
		var ready bool
		ready, reason = isReady(node)
		return ready, nil
	})
	if err != nil {
		return fmt.Errorf("wait for node %s to be ready: %w; last known: %s (plumblab logs kubelet)", cloud.node, err, reason)
	}
	return nil
}

// isReady says whether the node is Ready, and if not with which message.
func isReady(node *corev1.Node) (bool, string) {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue, condition.Message
		}
	}
	return false, "the kubelet has reported no condition"
}
