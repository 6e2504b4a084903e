// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"

	"plumbline.dev/plumbline/lab/controlplane"
)

// uninitialized marks a node that its cloud has not described yet
// (k8s.io/cloud-provider/api.TaintExternalCloudProvider).
const uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"

func clientOf(cp *controlplane.ControlPlane) (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", cp.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", cp.Kubeconfig(), err)
	}
	// One person at a time: no need to go easy on the API server.
	config.QPS, config.Burst = 200, 200
	return kubernetes.NewForConfig(config)
}

// join waits for the kubelet to register its node, tells the API server where
// the node is reached, as a cloud would, and waits for it to be Ready.
func (c *Cluster) join(ctx context.Context, cp *controlplane.ControlPlane, name string) error {
	client, err := clientOf(cp)
	if err != nil {
		return err
	}
	nodes := client.CoreV1().Nodes()
	described, reason := false, "the kubelet has not registered"
	err = wait.PollUntilContextCancel(ctx, 500*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		node, err := nodes.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if !described {
			if err := describe(ctx, client, name); err != nil {
				return false, err
			}
			described = true
		}
		var ready bool
		ready, reason = isReady(node)
		return ready, nil
	})
	if err != nil {
		return fmt.Errorf("wait for node %s to be ready: %w; last known: %s (plumblab logs kubelet)", name, err, reason)
	}
	return nil
}

// describe does what a cloud's controller does for a new node.
func describe(ctx context.Context, client kubernetes.Interface, name string) error {
	nodes := client.CoreV1().Nodes()
	external := corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "127.0.0.1"}
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := nodes.Get(ctx, name, metav1.GetOptions{})
		if err != nil || slices.Contains(node.Status.Addresses, external) {
			return err
		}
		node.Status.Addresses = append(node.Status.Addresses, external)
		_, err = nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("give node %s its external address: %w", name, err)
	}
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := nodes.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		before := len(node.Spec.Taints)
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == uninitialized })
		if len(node.Spec.Taints) == before {
			return nil
		}
		_, err = nodes.Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("remove taint %s from node %s: %w", uninitialized, name, err)
	}
	return nil
}

// isReady tells whether the node is Ready, and if not what it says of that.
func isReady(node *corev1.Node) (bool, string) {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue, condition.Message
		}
	}
	return false, "the kubelet has reported no condition"
}
