// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// ClaimedNIC is what a slice of the node publishes, as an attribute of text, of the NIC that
// a pod's one claim of its own holds.
func (c Cluster) ClaimedNIC(ctx context.Context, namespace, pod string, attribute resourceapi.QualifiedName) (string, error) {
	p, err := c.Client.CoreV1().Pods(namespace).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	claims := p.Status.ResourceClaimStatuses
	if len(claims) != 1 || claims[0].ResourceClaimName == nil {
		return "", fmt.Errorf("pod %s has %d claims of its own, want one", pod, len(claims))
	}
	claim, err := c.Client.ResourceV1().ResourceClaims(namespace).Get(ctx, *claims[0].ResourceClaimName, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if claim.Status.Allocation == nil {
		return "", fmt.Errorf("the claim of pod %s holds no device", pod)
	}
	results := claim.Status.Allocation.Devices.Results
	i := slices.IndexFunc(results, func(d resourceapi.DeviceRequestAllocationResult) bool { return d.Driver == slicecodec.DriverNet })
	if i < 0 {
		return "", fmt.Errorf("the claim of pod %s holds no NIC", pod)
	}
	published, err := c.Client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{
		FieldSelector: "spec.nodeName=" + c.Node + ",spec.driver=" + slicecodec.DriverNet,
	})
	if err != nil {
		return "", err
	}
	return textOf(published.Items, results[i].Device, attribute)
}

// textOf is an attribute of a published NIC.
func textOf(published []resourceapi.ResourceSlice, nic string, attribute resourceapi.QualifiedName) (string, error) {
	for _, s := range published {
		for _, d := range s.Spec.Devices {
			if text := d.Attributes[attribute].StringValue; d.Name == nic && text != nil {
				return *text, nil
			}
		}
	}
	return "", fmt.Errorf("no slice has %s of NIC %s", attribute, nic)
}
