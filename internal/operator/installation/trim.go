// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// AgentLabels are those of the agents' pods (the chart's plumbline.selector).
var AgentLabels = map[string]string{"app.kubernetes.io/name": "plumbline", "app.kubernetes.io/component": "agent"}

// drivers are those whose slices are ours, where we serve them.
var drivers = map[string]bool{slicecodec.DriverNet: true, slicecodec.DriverCPU: true, slicecodec.DriverGPU: true}

// TrimPod keeps of an agent's pod where it is and how it does.
func TrimPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	return &corev1.Pod{
		ObjectMeta: small(pod.ObjectMeta),
		Spec:       corev1.PodSpec{NodeName: pod.Spec.NodeName},
		Status: corev1.PodStatus{
			Phase: pod.Status.Phase, Conditions: pod.Status.Conditions, ContainerStatuses: pod.Status.ContainerStatuses,
		},
	}, nil
}

// TrimSlice keeps of a ResourceSlice whose it is, and which of its devices have taints.
func TrimSlice(object any) (any, error) {
	slice, ok := object.(*resourceapi.ResourceSlice)
	if !ok {
		return object, nil
	}
	trimmed := &resourceapi.ResourceSlice{ObjectMeta: small(slice.ObjectMeta), Spec: resourceapi.ResourceSliceSpec{
		Driver: slice.Spec.Driver, NodeName: slice.Spec.NodeName, Pool: slice.Spec.Pool,
	}}
	if !drivers[slice.Spec.Driver] {
		return trimmed, nil
	}
	for _, d := range slice.Spec.Devices {
		trimmed.Spec.Devices = append(trimmed.Spec.Devices, resourceapi.Device{Name: d.Name, Taints: d.Taints})
	}
	return trimmed, nil
}

func small(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion,
		Labels: m.Labels, DeletionTimestamp: m.DeletionTimestamp,
	}
}
