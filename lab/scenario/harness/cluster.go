// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Shell runs a script by sh as root on a node and returns what it printed. One runs at
// a time.
type Shell func(ctx context.Context, script string, args ...string) (string, error)

// Cluster is what a scenario needs of the lab's cluster.
type Cluster struct {
	Client kubernetes.Interface
	// Node is where the pods run, Shell its root shell.
	Node  string
	Shell Shell
	// Image has a shell.
	Image string
	// Out receives progress and findings.
	Out io.Writer
}

// CreateNamespace creates a namespace. One that exists is no error.
func CreateNamespace(ctx context.Context, client kubernetes.Interface, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// DeleteNamespace deletes a namespace and waits until it is gone with all that is in
// it. One that does not exist is no error.
func DeleteNamespace(ctx context.Context, client kubernetes.Interface, name string, limit time.Duration) error {
	namespaces := client.CoreV1().Namespaces()
	if err := namespaces.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	err := WaitFor(ctx, time.Second, limit, func() (bool, error) {
		_, err := namespaces.Get(ctx, name, metav1.GetOptions{})
		return isGone(err)
	})
	if err != nil {
		return fmt.Errorf("remove namespace %s: %w", name, err)
	}
	return nil
}

// WaitForReady waits until a pod is Ready, and where it does not become so says what
// Kubernetes said about it.
func WaitForReady(ctx context.Context, client kubernetes.Interface, namespace, pod string, every, limit time.Duration) error {
	err := WaitFor(ctx, every, limit, func() (bool, error) {
		p, err := client.CoreV1().Pods(namespace).Get(ctx, pod, metav1.GetOptions{})
		return err == nil && IsReady(p), err
	})
	if err != nil {
		return fmt.Errorf("pod %s does not run: %w: %s", pod, err, podEvents(ctx, client, namespace, pod))
	}
	return nil
}

// IsReady says whether a pod has the condition Ready.
func IsReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func podEvents(ctx context.Context, client kubernetes.Interface, namespace, pod string) string {
	list, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod})
	if err != nil {
		return err.Error()
	}
	var texts []string
	for _, e := range list.Items {
		texts = append(texts, e.Reason+": "+e.Message)
	}
	return strings.Join(texts, "; ")
}

// DeletePod deletes a pod, with so many seconds of grace; 0 waits for no node. One that
// does not exist is no error.
func DeletePod(ctx context.Context, client kubernetes.Interface, namespace, pod string, grace int64) error {
	err := client.CoreV1().Pods(namespace).Delete(ctx, pod, metav1.DeleteOptions{GracePeriodSeconds: &grace})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// PodGone says whether a pod exists no longer.
func PodGone(ctx context.Context, client kubernetes.Interface, namespace, pod string) (bool, error) {
	_, err := client.CoreV1().Pods(namespace).Get(ctx, pod, metav1.GetOptions{})
	return isGone(err)
}

func isGone(err error) (bool, error) {
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return false, err
}
