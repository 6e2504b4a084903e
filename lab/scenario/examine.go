// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/model"
)

// examine reads a running pod from both sides and judges its claim.
func examine(ctx context.Context, k Kubectl, namespace, podName, claimName string) (Outcome, error) {
	o := Outcome{Pod: &corev1.Pod{}, Claim: &resourceapi.ResourceClaim{}}
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
	o.FromInside = Judge(o.Claim, published, o.Inside)
	o.FromNode = Judge(o.Claim, published, o.OnNode)
	return o, errors.Join(insideErr, nodeErr)
}

// publishedAddresses reads the PCI address of every device a node publishes.
func publishedAddresses(ctx context.Context, k Kubectl, node string) (Published, error) {
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

// aligned is the tutorial's promise: GPU, NIC and CPUs on one NUMA node, GPU
// and NIC below one root.
func aligned(f Facts) Verdict {
	v := Verdict{What: "aligned", Why: placesOf(f)}
	v.OK = len(f.GPUs) == 1 && len(f.NICs) == 1 && f.GPUs[0].Root == f.NICs[0].Root &&
		f.NUMANodes().Equals(deviceNodes(f)) && f.NUMANodes().Size() == 1
	return v
}

// misaligned is the tutorial's counter-example: the CPUs on the other socket.
func misaligned(f Facts) Verdict {
	v := Verdict{What: "misaligned on purpose", Why: placesOf(f)}
	v.OK = len(f.GPUs) == 1 && len(f.NICs) == 1 && f.GPUs[0].Root == f.NICs[0].Root &&
		f.NUMANodes().Size() == 1 && f.NUMANodes().Intersection(deviceNodes(f)).IsEmpty()
	return v
}

func deviceNodes(f Facts) cpuset.CPUSet {
	var nodes []int
	for _, d := range append(append([]Located{}, f.NICs...), f.GPUs...) {
		nodes = append(nodes, d.NUMANode)
	}
	return cpuset.New(nodes...)
}

func placesOf(f Facts) string {
	return fmt.Sprintf("devices on NUMA node %s, CPUs on %s", deviceNodes(f), f.NUMANodes())
}

// checkStatus compares the claim's status.devices with what is in the pod:
// that is where people look an address up.
func checkStatus(claim *resourceapi.ResourceClaim, f Facts) Verdict {
	v := Verdict{What: "status.devices names the interface"}
	for _, d := range claim.Status.Devices {
		if d.NetworkData == nil {
			continue
		}
		v.Why = fmt.Sprintf("%s %s", d.NetworkData.InterfaceName, strings.Join(d.NetworkData.IPs, ","))
		for _, n := range f.NICs {
			v.OK = v.OK || n.Name == d.NetworkData.InterfaceName
		}
	}
	if v.Why == "" {
		text, err := json.Marshal(claim.Status.Devices)
		v.Why = fmt.Sprintf("no networkData in %s%v", text, err)
	}
	return v
}
