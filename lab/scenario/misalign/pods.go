// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package misalign

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

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
	_, err := r.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
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
		err := harness.WaitFor(ctx, poll, patience, func() (bool, error) {
			p, err := r.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
			return err == nil && running(p), err
		})
		if err != nil {
			return fmt.Errorf("pod %s does not run: %w", name, err)
		}
	}
	return nil
}

func claim(name string, cpu bool) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
	c.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "nic", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "dra.net"}}}
	c.Spec.Devices.Config = []resourceapi.DeviceClaimConfiguration{{
		Requests: []string{"nic"},
		DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
			Driver: "dra.net", Parameters: runtime.RawExtension{Raw: []byte(`{"interface": {"name": "net1"}}`)},
		}},
	}}
	if cpu {
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, resourceapi.DeviceRequest{Name: "cpu", Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: "dra.cpu",
			Capacity:        &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"dra.cpu/cpu": resource.MustParse("1")}},
		}})
	}
	return c
}

func (r *run) pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{corev1.LabelHostname: r.Node},
			// Not 0: such a pod is gone for the API server before the node has let it go.
			TerminationGracePeriodSeconds: ptr.To[int64](1),
			AutomountServiceAccountToken:  ptr.To(false),
			DNSPolicy:                     corev1.DNSDefault, // the lab has no cluster DNS
			ResourceClaims:                []corev1.PodResourceClaim{{Name: name, ResourceClaimName: &name}},
			Containers: []corev1.Container{{
				Name: "main", Image: r.Image, ImagePullPolicy: corev1.PullIfNotPresent,
				Command:   []string{"sh", "-c", "while :; do sleep 0.2; done"},
				Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: name}}},
			}},
		},
	}
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

// condition is the target's condition AsClaimed, in one word where all
// entries say the same.
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
