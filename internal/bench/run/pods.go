// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plumbline.dev/plumbline/internal/bench/plan"
)

// awaitReady waits until both pods are ready, and says of one that is not what Kubernetes
// says of it.
func (m *measurement) awaitReady(ctx context.Context) error {
	m.Progress("waiting for the pods")
	m.pods = map[string]*corev1.Pod{}
	for _, side := range m.plan.Sides() {
		var why string
		err := m.await(ctx, func(ctx context.Context) (bool, error) {
			pod, said, err := m.started(ctx, side)
			m.pods[side.Role], why = pod, said
			return pod != nil, err
		})
		if errors.Is(err, errPatience) {
			return fmt.Errorf("%w: pod %s is not ready after %s: %s", ErrPod, side.Pod.Name, m.Patience, why)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// started returns a side's pod if it is ready, or why it is not yet; the error is of one
// that will not be.
func (m *measurement) started(ctx context.Context, side plan.Side) (*corev1.Pod, string, error) {
	pod, err := m.get(ctx, side)
	if err != nil {
		return nil, "", err
	}
	for _, c := range pod.Status.ContainerStatuses {
		for _, said := range sayings(c.State, c.LastTerminationState) {
			if lacksProgram(said) {
				return nil, "", fmt.Errorf("%w: pod %s, image %s: %s", ErrTool, pod.Name, pod.Spec.Containers[0].Image, said)
			}
		}
	}
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return nil, "", fmt.Errorf("%w: pod %s ended: %s", ErrPod, pod.Name, why(pod))
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return pod, "", nil
		}
	}
	return nil, why(pod), nil
}

// get reads a side's pod, of which one that is being deleted is as good as gone.
func (m *measurement) get(ctx context.Context, side plan.Side) (*corev1.Pod, error) {
	pod, err := m.Client.CoreV1().Pods(side.Pod.Namespace).Get(ctx, side.Pod.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%w: pod %s is gone: was its node drained?", ErrPod, side.Pod.Name)
	case err != nil:
		return nil, fmt.Errorf("read pod %s: %w", side.Pod.Name, err)
	case pod.DeletionTimestamp != nil:
		return nil, fmt.Errorf("%w: pod %s is being deleted from node %s: was that drained?", ErrPod, pod.Name, pod.Spec.NodeName)
	}
	return pod, nil
}

// stay says whether both pods are what they were.
func (m *measurement) stay(ctx context.Context) error {
	for _, side := range m.plan.Sides() {
		pod, err := m.get(ctx, side)
		if err != nil {
			return err
		}
		if pod.UID != m.pods[side.Role].UID || pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("%w: pod %s of node %s is no longer the one that was measured: %s", ErrPod, pod.Name, pod.Spec.NodeName, why(pod))
		}
	}
	return nil
}

// why is what Kubernetes says of a pod that is not ready.
func why(pod *corev1.Pod) string {
	said := []string{"phase " + string(pod.Status.Phase)}
	if pod.Status.Message != "" {
		said = append(said, pod.Status.Message)
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			said = append(said, c.Message, "\"plumbline explain pod/"+pod.Name+"\" says more")
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		said = append(said, sayings(c.State, c.LastTerminationState)...)
	}
	return strings.Join(said, "; ")
}

// sayings are the messages of a container that does not run.
func sayings(states ...corev1.ContainerState) []string {
	var all []string
	for _, s := range states {
		if s.Waiting != nil && s.Waiting.Message != "" {
			all = append(all, s.Waiting.Reason+": "+s.Waiting.Message)
		}
		if t := s.Terminated; t != nil {
			all = append(all, fmt.Sprintf("%s, exit code %d: %s", t.Reason, t.ExitCode, t.Message))
		}
	}
	return all
}

// lacksProgram says whether a container runtime says that a program is not there.
func lacksProgram(said string) bool {
	return strings.Contains(said, "executable file not found") || strings.Contains(said, "exec:") && strings.Contains(said, "no such file or directory")
}
