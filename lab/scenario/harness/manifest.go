// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// Pod returns the manifest of a pod with one container, "main", on the cluster's node.
func (c Cluster) Pod(namespace, name string, command ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{corev1.LabelHostname: c.Node},
			// Not 0: such a pod is gone for the API server before the node has let it go.
			TerminationGracePeriodSeconds: ptr.To[int64](1),
			AutomountServiceAccountToken:  ptr.To(false),
			DNSPolicy:                     corev1.DNSDefault, // the lab has no cluster DNS
			Containers:                    []corev1.Container{c.Container("main", command...)},
		},
	}
}

// Container returns a container of the cluster's image.
func (c Cluster) Container(name string, command ...string) corev1.Container {
	return corev1.Container{Name: name, Image: c.Image, ImagePullPolicy: corev1.PullIfNotPresent, Command: command}
}

// AddClaim gives a pod a claim, which its first container names.
func AddClaim(p *corev1.Pod, claim corev1.PodResourceClaim) {
	p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, claim)
	main := &p.Spec.Containers[0]
	main.Resources.Claims = append(main.Resources.Claims, corev1.ResourceClaim{Name: claim.Name})
}

// RequestNIC asks for any NIC, by the shipped class (deploy/deviceclasses.yaml).
func RequestNIC() resourceapi.DeviceRequest {
	return resourceapi.DeviceRequest{Name: "nic", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: slicecodec.DriverNet}}
}

// RequestCPU asks for one CPU: a small node has no more to give.
func RequestCPU() resourceapi.DeviceRequest {
	return resourceapi.DeviceRequest{Name: "cpu", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: slicecodec.DriverCPU,
		Capacity: &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{
			slicecodec.CapacityCPU: resource.MustParse("1"),
		}},
	}}
}

// CreateTemplate creates a template of claims. One that exists is no error.
func CreateTemplate(ctx context.Context, client kubernetes.Interface, namespace, name string, devices resourceapi.DeviceClaim) error {
	template := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}}
	template.Spec.Spec.Devices = devices
	_, err := client.ResourceV1().ResourceClaimTemplates(namespace).Create(ctx, template, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
