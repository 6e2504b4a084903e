// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/lab/scenario/claimcheck"
)

var (
	//go:embed probe.sh
	probeScript string
	//go:embed onnode.sh
	onNodeScript string
	//go:embed hoststate.sh
	hostStateScript string
)

// The pod on the node that reads what the kernel says from outside. It sees
// every process, which is why it is the demo's own and goes with it.
const (
	probeNamespace = "kube-system"
	probePod       = "plumblab-probe"
)

// probeManifest runs on one node, beside everything.
func probeManifest(node, image string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: %s
  namespace: %s
spec:
  nodeName: %s
  hostPID: true
  hostNetwork: true
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  tolerations: [{operator: Exists}]
  containers:
  - name: probe
    image: %s
    imagePullPolicy: IfNotPresent
    command: ["tail", "-f", "/dev/null"]
    securityContext: {privileged: true}
    volumeMounts:
    - {name: sys, mountPath: /sys, readOnly: true}
  volumes:
  - name: sys
    hostPath: {path: /sys}
`, probePod, probeNamespace, node, image)
}

// startProbe starts the pod that reads the node, and waits for it.
func (d Demo) startProbe(ctx context.Context) error {
	if _, err := d.Kubectl.RunWithInput(ctx, probeManifest(d.Node, d.Image), "apply", "-f", "-"); err != nil {
		return err
	}
	return d.waitForPod(ctx, probeNamespace, probePod)
}

func (d Demo) stopProbe(ctx context.Context) error {
	return d.delete(ctx, probeNamespace, []string{"pod", probePod})
}

// readInside probes from within the pod's container.
func readInside(ctx context.Context, k Kubectl, pod *corev1.Pod) (claimcheck.Observation, error) {
	out, err := k.Shell(ctx, pod.Namespace, pod.Name, probeScript, "", "self")
	if err != nil {
		return claimcheck.Observation{}, fmt.Errorf("probe inside pod %s: %w", pod.Name, err)
	}
	return claimcheck.ParseObservation(out)
}

// readOnNode probes the same container from the node.
func readOnNode(ctx context.Context, k Kubectl, pod *corev1.Pod) (claimcheck.Observation, error) {
	if len(pod.Status.ContainerStatuses) == 0 {
		return claimcheck.Observation{}, fmt.Errorf("probe pod %s from the node: it has no container status", pod.Name)
	}
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	pid, err := k.Shell(ctx, probeNamespace, probePod, onNodeScript, id)
	if err != nil {
		return claimcheck.Observation{}, fmt.Errorf("find the process of pod %s: %w", pod.Name, err)
	}
	pid = strings.TrimSpace(pid)
	out, err := k.Shell(ctx, probeNamespace, probePod, probeScript, "/proc/"+pid+"/root", pid)
	if err != nil {
		return claimcheck.Observation{}, fmt.Errorf("probe pod %s from the node: %w", pod.Name, err)
	}
	return claimcheck.ParseObservation(out)
}

// hostState describes every PCI interface in the node's own namespace, a line
// each.
func hostState(ctx context.Context, k Kubectl) ([]string, error) {
	out, err := k.Shell(ctx, probeNamespace, probePod, hostStateScript)
	if err != nil {
		return nil, fmt.Errorf("read the state of the node's interfaces: %w", err)
	}
	return slices.Sorted(strings.Lines(out)), nil
}

// examine reads a running pod from inside and from the node, and checks its claim.
func examine(ctx context.Context, k Kubectl, namespace, podName, claimName string) (claimcheck.Outcome, error) {
	o := claimcheck.Outcome{Pod: &corev1.Pod{}, Claim: &resourceapi.ResourceClaim{}}
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
	published, err := publishedDevices(ctx, k, o.Pod.Spec.NodeName)
	if err != nil {
		return o, err
	}
	var insideErr, nodeErr error
	o.Inside, insideErr = readInside(ctx, k, o.Pod)
	o.OnNode, nodeErr = readOnNode(ctx, k, o.Pod)
	o.Inside = o.Inside.PlacedBy(o.OnNode)
	o.FromInside = claimcheck.Claim(o.Claim, published, o.Inside)
	o.FromNode = claimcheck.Claim(o.Claim, published, o.OnNode)
	return o, errors.Join(insideErr, nodeErr)
}

// publishedDevices reads every device with a PCI address that a node publishes.
func publishedDevices(ctx context.Context, k Kubectl, node string) (claimcheck.Published, error) {
	var list resourceapi.ResourceSliceList
	if err := k.Get(ctx, &list, "resourceslices", "--field-selector", "spec.nodeName="+node); err != nil {
		return nil, err
	}
	devices := map[string]claimcheck.PublishedDevice{}
	for _, s := range list.Items {
		for _, d := range s.Spec.Devices {
			id := d.Attributes[slicecodec.AttrPCIBusID].StringValue
			if id == nil {
				continue
			}
			a, err := model.ParsePCIAddress(*id)
			if err != nil {
				return nil, fmt.Errorf("slice %s, device %s: %w", s.Name, d.Name, err)
			}
			devices[s.Spec.Driver+"/"+d.Name] = claimcheck.PublishedDevice{
				Address: a, Simulated: ptr.Deref(d.Attributes[slicecodec.AttrSimulated].BoolValue, false),
			}
		}
	}
	return func(driver, device string) (claimcheck.PublishedDevice, bool) {
		d, ok := devices[driver+"/"+device]
		return d, ok
	}, nil
}
