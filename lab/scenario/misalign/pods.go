// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package misalign

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

// namespace holds everything of a run; its pods are called as their claims.
const (
	namespace = "plumblab-proof"
	target    = "target"
	control   = "control"
)

// podClaims says which pods have CPUs of their own beside a NIC.
var podClaims = map[string]bool{target: true, control: false}

// pods makes them and waits until they run.
func (r *run) pods(ctx context.Context) error {
	if err := harness.CreateNamespace(ctx, r.Client, namespace); err != nil {
		return err
	}
	for name, cpu := range podClaims {
		if _, err := r.Client.ResourceV1().ResourceClaims(namespace).Create(ctx, claim(name, cpu), metav1.CreateOptions{}); err != nil {
			return err
		}
		if _, err := r.Client.CoreV1().Pods(namespace).Create(ctx, r.pod(name), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	for name := range podClaims {
		if err := harness.WaitForReady(ctx, r.Client, namespace, name, poll, patience); err != nil {
			return err
		}
	}
	return nil
}

func claim(name string, cpu bool) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
	c.Spec.Devices.Requests = []resourceapi.DeviceRequest{harness.RequestNIC()}
	c.Spec.Devices.Config = []resourceapi.DeviceClaimConfiguration{{
		Requests: []string{"nic"},
		DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
			Driver: "dra.net", Parameters: runtime.RawExtension{Raw: []byte(`{"interface": {"name": "net1"}}`)},
		}},
	}}
	if cpu {
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, harness.RequestCPU())
	}
	return c
}

func (r *run) pod(name string) *corev1.Pod {
	pod := r.Pod(namespace, name, "sh", "-c", "while :; do sleep 0.2; done")
	harness.AddClaim(pod, corev1.PodResourceClaim{Name: name, ResourceClaimName: &name})
	return pod
}

func (r *run) containerID(ctx context.Context) (string, error) {
	p, err := r.Client.CoreV1().Pods(namespace).Get(ctx, target, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if len(p.Status.ContainerStatuses) == 0 {
		return "", fmt.Errorf("pod %s has no container", target)
	}
	_, id, _ := strings.Cut(p.Status.ContainerStatuses[0].ContainerID, "://")
	return id, nil
}

// condition is the status of the target's condition AsClaimed; where devices differ,
// such as "True and False".
func (r *run) condition(ctx context.Context) (string, error) {
	c, err := r.Client.ResourceV1().ResourceClaims(namespace).Get(ctx, target, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	var words []string
	for _, d := range c.Status.Devices {
		for _, condition := range d.Conditions {
			if condition.Type == "AsClaimed" && (len(words) == 0 || words[0] != string(condition.Status)) {
				words = append(words, string(condition.Status))
			}
		}
	}
	return strings.Join(words, " and "), nil
}

// events counts those of the target by their reasons.
func (r *run) events(ctx context.Context) (map[string]int, error) {
	list, err := r.Client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + target})
	if err != nil {
		return nil, err
	}
	count := map[string]int{}
	for _, e := range list.Items {
		count[e.Reason] += int(max(e.Count, 1))
	}
	return count, nil
}

// cleanUp removes what a run makes.
func (r *run) cleanUp(ctx context.Context) error {
	if err := r.removeObserver(ctx); err != nil {
		return err
	}
	return harness.DeleteNamespace(ctx, r.Client, namespace, patience)
}
