// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/lab/scenario/judge"
)

// examine reads a running pod from both sides and judges its claim.
func examine(ctx context.Context, k Kubectl, namespace, podName, claimName string) (judge.Outcome, error) {
	o := judge.Outcome{Pod: &corev1.Pod{}, Claim: &resourceapi.ResourceClaim{}}
	if err := k.Get(ctx, o.Pod, "pod", podName, "-n", namespace); err != nil {
		return o, err
	}
	if err := k.Get(ctx, o.Claim, "resourceclaim", claimName, "-n", namespace); err != nil {
		return o, err
	}
	if o.Claim.Status.Allocation == nil {
		return o, fmt.Errorf("claim %s is not allocated", claimName)
	}
	// A GPU asked for as nvidia.com/gpu comes in a claim that the scheduler
	// made.
	if extended := o.Pod.Status.ExtendedResourceClaimStatus; extended != nil {
		var made resourceapi.ResourceClaim
		if err := k.Get(ctx, &made, "resourceclaim", extended.ResourceClaimName, "-n", namespace); err != nil {
			return o, err
		}
		if made.Status.Allocation != nil {
			o.Claim.Status.Allocation.Devices.Results = append(o.Claim.Status.Allocation.Devices.Results,
				made.Status.Allocation.Devices.Results...)
		}
	}
	published, err := publishedAddresses(ctx, k, o.Pod.Spec.NodeName)
	if err != nil {
		return o, err
	}
	var insideErr, nodeErr error
	o.Inside, insideErr = readInside(ctx, k, o.Pod)
	o.OnNode, nodeErr = readOnNode(ctx, k, o.Pod)
	o.FromInside = judge.Claim(o.Claim, published, o.Inside)
	o.FromNode = judge.Claim(o.Claim, published, o.OnNode)
	return o, errors.Join(insideErr, nodeErr)
}

// publishedAddresses reads the PCI address of every device a node publishes.
func publishedAddresses(ctx context.Context, k Kubectl, node string) (judge.Published, error) {
	var list resourceapi.ResourceSliceList
	if err := k.Get(ctx, &list, "resourceslices", "--field-selector", "spec.nodeName="+node); err != nil {
		return nil, err
	}
	addresses := map[string]model.PCIAddress{}
	for _, s := range list.Items {
		for _, d := range s.Spec.Devices {
			id := d.Attributes["resource.kubernetes.io/pciBusID"].StringValue
			if id == nil {
				continue
			}
			a, err := model.ParsePCIAddress(*id)
			if err != nil {
				return nil, fmt.Errorf("slice %s, device %s: %w", s.Name, d.Name, err)
			}
			addresses[s.Spec.Driver+"/"+d.Name] = a
		}
	}
	return func(driver, device string) (model.PCIAddress, bool) {
		a, ok := addresses[driver+"/"+device]
		return a, ok
	}, nil
}
