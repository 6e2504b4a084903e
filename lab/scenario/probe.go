// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"plumbline.dev/plumbline/lab/scenario/judge"
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

// readInside probes from within the pod's container.
func readInside(ctx context.Context, k Kubectl, pod *corev1.Pod) (judge.Facts, error) {
	out, err := k.Shell(ctx, pod.Namespace, pod.Name, probeScript, "", "self")
	if err != nil {
		return judge.Facts{}, fmt.Errorf("probe inside pod %s: %w", pod.Name, err)
	}
	return judge.ParseFacts(out)
}

// readOnNode probes the same container from the node.
func readOnNode(ctx context.Context, k Kubectl, pod *corev1.Pod) (judge.Facts, error) {
	if len(pod.Status.ContainerStatuses) == 0 {
		return judge.Facts{}, fmt.Errorf("probe pod %s from the node: it has no container status", pod.Name)
	}
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	pid, err := k.Shell(ctx, probeNamespace, probePod, onNodeScript, id)
	if err != nil {
		return judge.Facts{}, fmt.Errorf("find the process of pod %s: %w", pod.Name, err)
	}
	pid = strings.TrimSpace(pid)
	out, err := k.Shell(ctx, probeNamespace, probePod, probeScript, "/proc/"+pid+"/root", pid)
	if err != nil {
		return judge.Facts{}, fmt.Errorf("probe pod %s from the node: %w", pod.Name, err)
	}
	return judge.ParseFacts(out)
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
