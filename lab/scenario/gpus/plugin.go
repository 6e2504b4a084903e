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
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/lab/node"
	"plumbline.dev/plumbline/lab/scenario/harness"
)

const (
	// pluginPod runs NVIDIA's device plugin, in the folder of the kubelet's.
	pluginPod   = "device-plugin"
	kubeletDir  = "/var/lib/kubelet/device-plugins"
	driverRoot  = "/driver-root"
	pluggedGPUs = corev1.ResourceName("nvidia.com/gpu")
)

// plugged has NVIDIA's device plugin offer the GPUs that the DRA driver publishes, and pods
// take all of them, that of the holder's claim too.
func (r *run) plugged(ctx context.Context) error {
	// Parts of GPUs, and whole ones beside them, use up counters.
	parts := func(d *resourceapi.Device) bool { return len(d.ConsumesCounters) > 0 }
	err := r.configure(ctx, "in one piece", func(d *resourceapi.Device) bool { return !parts(d) }, nil, "")
	if err != nil {
		return err
	}
	all, err := r.devices(ctx)
	if err != nil {
		return err
	}
	// What the driver published before may be a moment late to go.
	all = slices.DeleteFunc(all, func(d resourceapi.Device) bool { return parts(&d) })
	if _, err := r.Client.CoreV1().Pods(namespace).Create(ctx, r.pluginManifest(), metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := r.awaitOffer(ctx, int64(len(all))); err != nil {
		return err
	}
	offers := fmt.Sprintf("a device plugin offers %d %s", len(all), pluggedGPUs)
	for _, of := range [][]string{{"--node", r.Node}, {"-A"}} {
		if err := r.examined(ctx, of, offers); err != nil {
			return err
		}
	}
	// Nobody can choose which of the GPUs the plugin gives: the two pods have all of them.
	const one, rest = "plugged-one", "plugged-rest"
	if err := r.plug(ctx, one, 1); err != nil {
		return err
	}
	if err := r.drawnAsPlugged(ctx, one); err != nil {
		return err
	}
	if err := r.plug(ctx, rest, int64(len(all)-1)); err != nil {
		return err
	}
	if err := r.heldTwice(ctx); err != nil {
		return err
	}
	for _, pod := range []string{one, rest, pluginPod} {
		if err := harness.DeletePod(ctx, r.Client, namespace, pod, 1); err != nil {
			return err
		}
		// Until then it has its GPU.
		err := harness.WaitFor(ctx, poll, patience, func() (bool, error) { return harness.PodGone(ctx, r.Client, namespace, pod) })
		if err != nil {
			return fmt.Errorf("wait for the end of pod %s: %w", pod, err)
		}
	}
	return r.stillHas(ctx, "who had a GPU before, the device plugin and its pods gone")
}

// pluginManifest runs the plugin as NVIDIA's own chart does where the runtime knows nothing
// of GPUs: containers get the device files themselves.
func (r *run) pluginManifest() *corev1.Pod {
	pod := r.Pod(namespace, pluginPod, "/usr/bin/nvidia-device-plugin",
		"--pass-device-specs", "--device-discovery-strategy=nvml", "--nvidia-driver-root="+node.NVIDIADriverRoot, "--nvidia-dev-root=/", "--driver-root-ctr-path="+driverRoot)
	main := &pod.Spec.Containers[0]
	main.Image = r.DevicePlugin
	// It names the files that its own container has.
	main.SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
	for _, m := range []struct{ name, host, inside string }{
		{"kubelet", kubeletDir, kubeletDir}, {"driver", node.NVIDIADriverRoot, driverRoot},
	} {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
			Name: m.name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: m.host}},
		})
		main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: m.name, MountPath: m.inside})
	}
	return pod
}

// awaitOffer waits until the node has so many GPUs of the plugin's.
func (r *run) awaitOffer(ctx context.Context, count int64) error {
	var offered resource.Quantity
	err := harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		n, err := r.Client.CoreV1().Nodes().Get(ctx, r.Node, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		offered = n.Status.Allocatable[pluggedGPUs]
		return offered.Value() == count, nil
	})
	if err != nil {
		return fmt.Errorf("wait for %d %s of NVIDIA's device plugin on node %s, which has %s: %w", count, pluggedGPUs, r.Node, offered.String(), err)
	}
	r.report.Finding(true, "NVIDIA's device plugin", "offers %d %s beside the DRA driver", count, pluggedGPUs)
	return nil
}

// plug makes a pod without a claim that asks for GPUs.
func (r *run) plug(ctx context.Context, name string, gpus int64) error {
	pod := r.Pod(namespace, name, "sh", "-c", "trap exit TERM; tail -f /dev/null & wait")
	pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{pluggedGPUs: *resource.NewQuantity(gpus, resource.DecimalSI)}
	if _, err := r.Client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	return r.awaitReady(ctx, name)
}

// drawnAsPlugged wants a pod of the plugin's to have the file of one GPU, and plumbline topo
// to draw the pod at that GPU, and its two owners.
func (r *run) drawnAsPlugged(ctx context.Context, pod string) error {
	inside, err := r.Kubectl.Shell(ctx, namespace, pod, "cd /dev && echo nvidia[0-9]*")
	if err != nil {
		return err
	}
	has := strings.Fields(inside)
	r.report.Finding(len(has) == 1, pod+" has a GPU of the device plugin", "%s", strings.Join(has, " "))
	if len(has) != 1 {
		return nil
	}
	// Both call a GPU by its minor number.
	device := "gpu-" + strings.TrimPrefix(has[0], "nvidia")
	for _, text := range []string{namespace + "/" + pod, "two owners: " + slicecodec.DriverGPU + ", " + string(pluggedGPUs)} {
		if err := r.drawn(ctx, device+" ", text); err != nil {
			return err
		}
	}
	return nil
}

// heldTwice wants the holder's GPU, which a pod of the plugin's has too, to be told.
func (r *run) heldTwice(ctx context.Context) error {
	if err := r.drawn(ctx, "is held twice", "by a claim, and by a pod that has "+string(pluggedGPUs)); err != nil {
		return err
	}
	answer, err := r.Plumbline.Verify(ctx, namespace, holder)
	if err != nil {
		return err
	}
	const says = "no GPU serves a claim and a device plugin"
	r.report.Finding(answer.Code != 0 && strings.Contains(answer.Out, says) && strings.Contains(answer.Out, namespace+"/plugged-"),
		"plumbline verify of who has that GPU by a claim", "says %q and which pod (%s)", says, answer.Ending())
	if answer.Code == 0 {
		fmt.Fprint(r.Out, answer.Out)
	}
	return nil
}
