// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/lab/scenario/claimcheck"
)

// Azure is mission/distributed-training-numa.txt: both templates, each on a
// node of its own that only publishes slices. Nothing runs there; what the
// scheduler chose is what there is to see.
func (d Demo) Azure(ctx context.Context) (bool, error) {
	d.heading("The training example's two templates, allocated on simulated Azure nodes (nothing runs there), whose GPUs %s publishes", d.publisher())
	if _, err := d.Kubectl.Run(ctx, "apply", "-k", d.overlay("distributed-training-numa")); err != nil {
		return false, err
	}
	ok := true
	for _, want := range []struct {
		pod  string
		node int64
	}{{"h100-numa-aligned", 0}, {"h100-numa-unaligned", 1}} {
		v, err := d.checkAzureClaim(ctx, want.pod, want.node)
		if err != nil {
			return false, err
		}
		fmt.Fprintf(d.Out, "  %s  %s\n      %s\n", claimcheck.Mark(v.OK), v.What, v.Why)
		ok = ok && v.OK
	}
	return ok, nil
}

// publisher is who publishes the GPUs of simulated nodes.
func (d Demo) publisher() string {
	if d.NVIDIA {
		return "NVIDIA's driver"
	}
	return "plumbline"
}

// checkAzureClaim checks one template against the document: these four
// GPUs, and NICs of that NUMA node. NVIDIA's driver marks no GPU as simulated.
func (d Demo) checkAzureClaim(ctx context.Context, pod string, node int64) (claimcheck.Result, error) {
	v := claimcheck.Result{What: fmt.Sprintf("%s: 4 GPUs by address, 4 RDMA NICs of NUMA node %d", pod, node)}
	claim, err := d.allocatedClaim(ctx, "default", pod)
	if err != nil {
		return v, err
	}
	var list resourceapi.ResourceSliceList
	if err := d.Kubectl.Get(ctx, &list, "resourceslices"); err != nil {
		return v, err
	}
	var gpus, nics []string
	v.OK = true
	for _, r := range claim.Status.Allocation.Devices.Results {
		device := findDevice(list.Items, r)
		if device == nil {
			return v, fmt.Errorf("claim %s holds %s/%s, which no slice publishes", claim.Name, r.Driver, r.Device)
		}
		id := device.Attributes[slicecodec.AttrPCIBusID].StringValue
		if id == nil {
			return v, fmt.Errorf("claim %s holds %s/%s, which has no PCI address", claim.Name, r.Driver, r.Device)
		}
		if r.Driver == slicecodec.DriverGPU {
			gpus = append(gpus, *id)
			v.OK = v.OK && ptr.Deref(device.Attributes[slicecodec.AttrSimulated].BoolValue, false) != d.NVIDIA
			continue
		}
		nics = append(nics, r.Device)
		numa := device.Attributes[slicecodec.AttrLegacyNUMANode].IntValue
		rdma := device.Attributes[slicecodec.AttrRDMA].BoolValue
		v.OK = v.OK && numa != nil && *numa == node && rdma != nil && *rdma
	}
	slices.Sort(gpus)
	want := []string{"0001:00:00.0", "0002:00:00.0", "0003:00:00.0", "0008:00:00.0"}
	v.OK = v.OK && slices.Equal(gpus, want) && len(nics) == 4
	v.Why = fmt.Sprintf("on %s: GPUs %s, as %s publishes them; NICs %s", claim.Status.Allocation.Devices.Results[0].Pool,
		strings.Join(gpus, " "), d.publisher(), strings.Join(nics, " "))
	return v, nil
}

func findDevice(published []resourceapi.ResourceSlice, r resourceapi.DeviceRequestAllocationResult) *resourceapi.Device {
	for _, s := range published {
		if s.Spec.Driver != r.Driver || s.Spec.Pool.Name != r.Pool {
			continue
		}
		for i := range s.Spec.Devices {
			if s.Spec.Devices[i].Name == r.Device {
				return &s.Spec.Devices[i]
			}
		}
	}
	return nil
}

// allocatedClaim waits for the claim that was made for a pod from a template.
func (d Demo) allocatedClaim(ctx context.Context, namespace, podName string) (*resourceapi.ResourceClaim, error) {
	var claim resourceapi.ResourceClaim
	err := poll(ctx, func() (bool, error) {
		var pod corev1.Pod
		if err := d.Kubectl.Get(ctx, &pod, "pod", podName, "-n", namespace); err != nil {
			return false, err
		}
		if len(pod.Status.ResourceClaimStatuses) == 0 || pod.Status.ResourceClaimStatuses[0].ResourceClaimName == nil {
			return false, nil
		}
		name := *pod.Status.ResourceClaimStatuses[0].ResourceClaimName
		err := d.Kubectl.Get(ctx, &claim, "resourceclaim", name, "-n", namespace)
		return claim.Status.Allocation != nil, err
	})
	if err != nil {
		events, _ := d.Kubectl.Run(ctx, "events", "-n", namespace, "--for", "pod/"+podName)
		return nil, fmt.Errorf("claim of pod %s: %w\n%s", podName, err, events)
	}
	return &claim, nil
}

// mpi is mission/mpi-operator-gpudirect.txt: the interface that the selector
// names arrives in the pod under the name that the configuration gives it.
func (d Demo) mpi(ctx context.Context) (bool, error) {
	d.heading("The MPI example's class and template on the virtual machine")
	// The NIC that it names may be the tutorial's pods': NVIDIA's driver lists GPUs in any
	// order, and their NICs follow.
	if err := d.deleteMission(ctx); err != nil {
		return false, err
	}
	if _, err := d.Kubectl.Run(ctx, "apply", "-k", d.overlay("mpi-operator-gpudirect")); err != nil {
		return false, err
	}
	const pod = "nccl-test-dranet-worker-0"
	if err := d.waitForPod(ctx, "default", pod); err != nil {
		return false, err
	}
	claim, err := d.allocatedClaim(ctx, "default", pod)
	if err != nil {
		return false, err
	}
	o, err := d.examine(ctx, "default", pod, claim.Name)
	if err != nil {
		return false, err
	}
	// The machine file says where gpu2rdma0 is.
	o.Expected = claimcheck.Result{What: "gpu2rdma0 is dranet0 in the pod", Why: "its interfaces: "}
	for _, n := range o.OnNode.NICs {
		o.Expected.Why += fmt.Sprintf("%s at %s", n.Name, n.Address)
		o.Expected.OK = o.Expected.OK || n.Name == "dranet0" && n.Address.String() == "0000:98:00.0"
	}
	return o.OK(), claimcheck.WriteResults(d.Out, o)
}
