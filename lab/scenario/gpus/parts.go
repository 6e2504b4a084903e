// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package gpus

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/lab/node"
	"plumbline.dev/plumbline/lab/nvml"
	"plumbline.dev/plumbline/lab/scenario/harness"
)

// migState is the file in which the stand-in of NVIDIA's library keeps what is made of GPUs.
const migState = node.NVIDIADriverRoot + "/" + nvml.MIGPath

// shares has two claims of one GPU prepared. One of its pods ends, and the other one keeps
// the GPU.
func (r *run) shares(ctx context.Context) error {
	err := r.configure(ctx, "in four shares", func(d *resourceapi.Device) bool {
		shares, ok := d.Capacity["shares"]
		return ok && shares.Value.Value() == 4
	}, []string{"ConsumableShares"}, "4")
	if err != nil {
		return err
	}
	pods := []string{"share-1", "share-2"}
	var held, ids []string
	for _, pod := range pods {
		if err := r.claimed(ctx, pod, "--gpus", "1", "--gpu-share", "shares=2"); err != nil {
			return err
		}
		result, err := r.allocated(ctx, pod)
		if err != nil {
			return err
		}
		held = append(held, result.Device)
		if result.ShareID != nil {
			ids = append(ids, string(*result.ShareID))
		}
	}
	r.report.Finding(held[0] == held[1] && len(ids) == 2 && ids[0] != ids[1], "two pods share a GPU", "a half of %s each", held[0])
	for _, pod := range pods {
		if err := r.asClaimed(ctx, pod, pod+", which shares a GPU"); err != nil {
			return err
		}
	}
	if err := r.drawn(ctx, held[0], "shared by 2 pods"); err != nil {
		return err
	}
	if err := r.remove(ctx, pods[0]); err != nil {
		return err
	}
	if err := r.asClaimed(ctx, pods[1], "who is left of them"); err != nil {
		return err
	}
	return r.remove(ctx, pods[1])
}

// migProfile is that of the MIG device, a half of the GPU's memory.
const migProfile = "3g.71gb"

// parts has a MIG device made for a claim, kills the driver, and wants the device to end with
// its claim.
func (r *run) parts(ctx context.Context) error {
	err := r.configure(ctx, "offered as MIG devices", func(d *resourceapi.Device) bool {
		profile := d.Attributes["profile"].StringValue
		return profile != nil && *profile == migProfile
	}, []string{"DynamicMIG"}, "")
	if err != nil {
		return err
	}
	const pod = "a-part"
	if err := r.claimed(ctx, pod, "--gpus", "1", "--mig-profile", migProfile); err != nil {
		return err
	}
	result, err := r.allocated(ctx, pod)
	if err != nil {
		return err
	}
	if err := r.hasPart(ctx, pod, result.Device); err != nil {
		return err
	}
	before, err := r.made(ctx)
	if err != nil {
		return err
	}
	if err := r.killDriver(ctx); err != nil {
		return err
	}
	if err := r.awaitDriver(ctx); err != nil {
		return err
	}
	after, err := r.made(ctx)
	if err != nil {
		return err
	}
	r.report.Finding(after == before, "the driver was killed", "the MIG device outlives it: %s", strings.ReplaceAll(after, "\n", ", "))
	if err := r.asClaimed(ctx, pod, "who has the MIG device"); err != nil {
		return err
	}
	if err := r.remove(ctx, pod); err != nil {
		return err
	}
	err = harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		left, err := r.made(ctx)
		return left == "", err
	})
	r.report.Finding(err == nil, "the claim of the MIG device is gone", "and with it the device, and its GPU's MIG mode")
	if err != nil {
		return err
	}
	return r.stillHas(ctx, "who had a GPU before")
}

// hasPart looks at a MIG device from the pod and from plumbline.
func (r *run) hasPart(ctx context.Context, pod, device string) error {
	inside, err := r.Kubectl.Shell(ctx, namespace, pod, "cd /dev/nvidia-caps && echo *")
	if err != nil {
		return err
	}
	const capabilities = `cd /proc/driver/nvidia/capabilities
echo $(sed -n 's/DeviceFileMinor: /nvidia-cap/p' gpu*/mig/gi*/access gpu*/mig/gi*/ci*/access)`
	shown, err := r.Shell(ctx, capabilities)
	if err != nil {
		return err
	}
	has, want := strings.Fields(inside), strings.Fields(shown)
	r.report.Finding(len(want) == 2 && slices.Equal(has, want), pod+" has a MIG device",
		"%s, by %s; the kernel's driver shows %s", device, strings.Join(has, " "), strings.Join(want, " "))
	if err := r.asClaimed(ctx, pod, "a pod with a MIG device"); err != nil {
		return err
	}
	return r.drawn(ctx, device, pod)
}

// configure gives the driver other features, and waits for a device as it publishes them
// then.
func (r *run) configure(ctx context.Context, how string, is func(d *resourceapi.Device) bool, gates []string, shares string) error {
	if err := r.Configure(ctx, gates, shares); err != nil {
		return err
	}
	err := harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		all, err := r.devices(ctx)
		return slices.ContainsFunc(all, func(d resourceapi.Device) bool { return is(&d) }), err
	})
	if err != nil {
		return fmt.Errorf("wait for a GPU %s: %w", how, err)
	}
	return r.stillHas(ctx, "who had a whole GPU before, with GPUs "+how)
}

// awaitDriver waits until the driver runs again.
func (r *run) awaitDriver(ctx context.Context) error {
	err := harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		list, err := r.Client.CoreV1().Pods(driverNamespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) == 0 {
			return false, err
		}
		return !slices.ContainsFunc(list.Items, func(p corev1.Pod) bool { return !harness.IsReady(&p) }), nil
	})
	if err != nil {
		return fmt.Errorf("wait for NVIDIA's driver: %w", err)
	}
	return nil
}

// claimed has plumbline claim new write a claim, and makes a pod of it.
func (r *run) claimed(ctx context.Context, name string, flags ...string) error {
	answer, err := r.Plumbline.Run(ctx, append([]string{"claim", "new", name, "-n", namespace}, flags...)...)
	if err != nil {
		return err
	}
	if answer.Code != 0 {
		return fmt.Errorf("plumbline claim new %s: %s: %s", strings.Join(flags, " "), answer.Ending(), answer.Complaint)
	}
	if _, err := r.Kubectl.RunWithInput(ctx, answer.Out, "apply", "-n", namespace, "-f", "-"); err != nil {
		return err
	}
	if err := r.createPod(ctx, name); err != nil {
		return err
	}
	return r.awaitReady(ctx, name)
}

// allocated is the only device of a claim.
func (r *run) allocated(ctx context.Context, name string) (resourceapi.DeviceRequestAllocationResult, error) {
	claim, err := r.Client.ResourceV1().ResourceClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return resourceapi.DeviceRequestAllocationResult{}, err
	}
	if claim.Status.Allocation == nil || len(claim.Status.Allocation.Devices.Results) != 1 {
		return resourceapi.DeviceRequestAllocationResult{}, fmt.Errorf("claim %s: want one device of %s, allocated", name, slicecodec.DriverGPU)
	}
	return claim.Status.Allocation.Devices.Results[0], nil
}

// drawn wants a line of plumbline topo that has both texts.
func (r *run) drawn(ctx context.Context, device, text string) error {
	answer, err := r.Plumbline.Run(ctx, "topo", "--node", r.Node)
	if err != nil {
		return err
	}
	for line := range strings.Lines(answer.Out) {
		if strings.Contains(line, device) && strings.Contains(line, text) {
			r.report.Finding(true, "plumbline topo", "%s", strings.Join(strings.Fields(line), " "))
			return nil
		}
	}
	r.report.Finding(false, "plumbline topo", "no line has %s and %s (%s):\n%s", device, text, answer.Ending(), answer.Out)
	return nil
}

// made is what the GPUs are in MIG mode for, a line each.
func (r *run) made(ctx context.Context) (string, error) {
	lines, err := r.Shell(ctx, "sed /^made/d "+migState)
	return strings.TrimSpace(lines), err
}
