// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package pinning

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

// namespace holds everything of a run.
const namespace = "plumblab-cpus"

// shellName is what the kernel calls the containers' process.
const shellName = "sh"

// Commands of the containers. recordAffinity prints where it may run, from its own
// /proc/self/status, whenever that has changed.
//
// The busy one has a limit: it runs in every tenth of a second, wherever the
// kernel puts it, and leaves a small node the time to do anything else.
const (
	busyLoop       = `while :; do :; done`
	busyLimit      = "200m"
	recordAffinity = `before=; while :; do
	now=$(grep -E '^(Cpu|Mem)s_allowed_list:' /proc/self/status)
	[ "$now" = "$before" ] || echo $now; before=$now; sleep 0.2
done`
)

// createRecorder makes a pod that records where it may run, and waits until it does.
func (r *run) createRecorder(ctx context.Context, name string, claims ...string) error {
	if err := r.create(ctx, name, recordAffinity, claims...); err != nil {
		return err
	}
	return r.waitForReady(ctx, name)
}

// create makes a pod.
func (r *run) create(ctx context.Context, name, command string, claims ...string) error {
	pod := r.Pod(namespace, name, "sh", "-c", command)
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
	requests, limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}, corev1.ResourceList{}
	if name == busy {
		limits[corev1.ResourceCPU] = resource.MustParse(busyLimit)
	}
	for _, claim := range claims {
		harness.AddClaim(pod, corev1.PodResourceClaim{Name: claim, ResourceClaimName: &claim})
	}
	if len(claims) > 0 {
		// As long as the scheduler does not count a claim's CPUs as the pod's.
		requests[corev1.ResourceCPU] = resource.MustParse("1")
		limits[corev1.ResourceCPU] = resource.MustParse("1")
	}
	main := &pod.Spec.Containers[0]
	main.Resources.Requests, main.Resources.Limits = requests, limits
	if _, err := r.Client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create pod %s: %w", name, err)
	}
	return nil
}

// waitForReady waits until a pod is Ready.
func (r *run) waitForReady(ctx context.Context, name string) error {
	return harness.WaitForReady(ctx, r.Client, namespace, name, poll, patience)
}

// claim creates a claim of one CPU of a NUMA node.
func (r *run) claim(ctx context.Context, name string, node int) error {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
	cpu := harness.RequestCPU()
	cpu.Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
		Expression: fmt.Sprintf(`device.attributes["dra.cpu"].numaNodeID == %d`, node),
	}}}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{cpu}
	_, err := r.Client.ResourceV1().ResourceClaims(namespace).Create(ctx, claim, metav1.CreateOptions{})
	return err
}

func (r *run) uid(ctx context.Context, pod string) (string, error) {
	p, err := r.Client.CoreV1().Pods(namespace).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("read pod %s: %w", pod, err)
	}
	return string(p.UID), nil
}

// recorded is what a container has read of itself since it started, without
// repetitions.
func (r *run) recorded(ctx context.Context, pod string) ([]string, error) {
	var lines []string
	err := r.until(ctx, func() (bool, error) {
		text, err := r.Client.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{}).DoRaw(ctx)
		if err != nil {
			return false, nil // the kubelet may be on its way back
		}
		lines = slices.Collect(strings.Lines(strings.TrimSpace(string(text))))
		return len(lines) > 0, nil
	})
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return lines, err
}

// resize changes a running container's request, as an autoscaler does.
func (r *run) resize(ctx context.Context, pod, cpu string) error {
	patch := fmt.Sprintf(`{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":%q}}}]}}`, cpu)
	_, err := r.Client.CoreV1().Pods(namespace).Patch(ctx, pod, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "resize")
	if err != nil {
		return fmt.Errorf("resize pod %s: %w", pod, err)
	}
	return r.until(ctx, func() (bool, error) {
		p, err := r.Client.CoreV1().Pods(namespace).Get(ctx, pod, metav1.GetOptions{})
		if err != nil || len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].Resources == nil {
			return false, err
		}
		has := p.Status.ContainerStatuses[0].Resources.Requests[corev1.ResourceCPU]
		return has.Cmp(resource.MustParse(cpu)) == 0, nil
	})
}

// remove deletes a pod and waits until it is gone.
func (r *run) remove(ctx context.Context, pod string) error {
	if err := harness.DeletePod(ctx, r.Client, namespace, pod, 0); err != nil {
		return err
	}
	return r.until(ctx, func() (bool, error) { return harness.PodGone(ctx, r.Client, namespace, pod) })
}

// cleanUp removes everything of a run.
func (r *run) cleanUp(ctx context.Context) error {
	return errors.Join(r.stopSampling(ctx), harness.DeleteNamespace(ctx, r.Client, namespace, patience))
}
