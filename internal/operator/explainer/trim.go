// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explainer

import (
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// trim keeps of an object what explaining needs: of a node not its images, of a
// claim with devices not what it asked for, of a pod not its containers.
func trim(object any) (any, error) {
	switch full := object.(type) {
	case *corev1.Pod:
		return trimPod(full), nil
	case *corev1.Node:
		return trimNode(full), nil
	case *resourceapi.ResourceClaim:
		return trimClaim(full), nil
	case *resourceapi.ResourceClaimTemplate:
		small := &resourceapi.ResourceClaimTemplate{ObjectMeta: name(full)}
		small.Spec.Spec.Devices = withoutConfig(full.Spec.Spec.Devices)
		return small, nil
	case *resourceapi.DeviceClass:
		small := &resourceapi.DeviceClass{ObjectMeta: name(full), Spec: full.Spec}
		small.Spec.Config = nil
		return small, nil
	case *resourceapi.DeviceTaintRule:
		return &resourceapi.DeviceTaintRule{ObjectMeta: name(full), Spec: full.Spec}, nil
	case *resourceapi.ResourceSlice:
		return pack(&resourceapi.ResourceSlice{ObjectMeta: name(full), Spec: full.Spec})
	}
	return object, nil
}

// name keeps of an object's metadata which object of that name it is.
func name(full metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: full.GetNamespace(), Name: full.GetName(), UID: full.GetUID(), ResourceVersion: full.GetResourceVersion(),
	}
}

func trimPod(full *corev1.Pod) *corev1.Pod {
	small := &corev1.Pod{ObjectMeta: name(full)}
	if len(full.Spec.ResourceClaims) == 0 {
		return small
	}
	small.CreationTimestamp, small.DeletionTimestamp = full.CreationTimestamp, full.DeletionTimestamp
	small.Spec = corev1.PodSpec{
		NodeName: full.Spec.NodeName, NodeSelector: full.Spec.NodeSelector, Tolerations: full.Spec.Tolerations,
		SchedulingGates: full.Spec.SchedulingGates, ResourceClaims: full.Spec.ResourceClaims,
	}
	if a := full.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		small.Spec.Affinity = &corev1.Affinity{NodeAffinity: a.NodeAffinity}
	}
	small.Status.Phase, small.Status.ResourceClaimStatuses = full.Status.Phase, full.Status.ResourceClaimStatuses
	if c := scheduled(full); c != nil {
		small.Status.Conditions = []corev1.PodCondition{{Type: c.Type, Status: c.Status, Reason: c.Reason, LastTransitionTime: c.LastTransitionTime}}
	}
	return small
}

func trimNode(full *corev1.Node) *corev1.Node {
	small := &corev1.Node{ObjectMeta: name(full), Spec: corev1.NodeSpec{Unschedulable: full.Spec.Unschedulable, Taints: full.Spec.Taints}}
	small.Labels = full.Labels
	small.Status.DeclaredFeatures = full.Status.DeclaredFeatures
	return small
}

func trimClaim(full *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	small := &resourceapi.ResourceClaim{ObjectMeta: name(full)}
	if full.Status.Allocation == nil {
		small.Spec.Devices = withoutConfig(full.Spec.Devices)
		return small
	}
	small.Status.ReservedFor = full.Status.ReservedFor
	small.Status.Allocation = &resourceapi.AllocationResult{NodeSelector: full.Status.Allocation.NodeSelector}
	small.Status.Allocation.Devices.Results = full.Status.Allocation.Devices.Results
	return small
}

// withoutConfig leaves out what is the drivers' to read.
func withoutConfig(devices resourceapi.DeviceClaim) resourceapi.DeviceClaim {
	devices.Config = nil
	return devices
}
