// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"plumbline.dev/plumbline/deploy"
	"plumbline.dev/plumbline/docs/docstest"
	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/nodeslices"
)

// TestRDMAPage applies every manifest of docs/rdma.md to a real control plane, whose node
// has the devices of a3-ultragpu-8g. The scheduler gives all pods, those of the job among
// them, what their claims ask for.
func TestRDMAPage(t *testing.T) {
	admin := serving(t)
	f := &gpuPage{newApplier(t, admin), kubernetes.NewForConfigOrDie(admin)}
	for _, class := range objectsOf(t, append(deploy.DeviceClasses(), nvidiaClasses...)) {
		if err := f.apply(t.Context(), class, "", false); err != nil {
			t.Fatal(err)
		}
	}
	file, err := machine.Open("a3-ultragpu-8g")
	if err != nil {
		t.Fatal(err)
	}
	published, _, err := nodeslices.OfFile(t.Context(), file, nodeslices.Options{Node: "node"})
	if err != nil {
		t.Fatal(err)
	}
	addNode(t, f, "node", published)

	const namespace = "rdma"
	makePodNamespace(t, f.client, namespace)
	blocks := docstest.Blocks(t, "rdma.md")
	if fences := strings.Count(docstest.Page(t, "rdma.md"), "```yaml\n"); fences != len(blocks) {
		t.Errorf("%d blocks of YAML, %d are tried", fences, len(blocks))
	}
	for _, b := range blocks {
		for _, object := range objectsOf(t, []byte(b.Text)) {
			if err := f.apply(t.Context(), object, namespace, false); err != nil {
				t.Fatalf("manifest %s, %s %s: %v", b.Name, object.GetKind(), object.GetName(), err)
			}
		}
	}
	const numaNode, root = "dra.net/numaNode", "resource.kubernetes.io/pcieRoot"
	// attribute is what the devices of a pod have in common, or not.
	wants := map[string]struct {
		devices, attribute string
		differs            bool
	}{
		"server":     {devices: "1 of dra.net"},
		"client":     {devices: "1 of dra.net"},
		"aligned":    {devices: "1 of dra.cpu, 1 of dra.net", attribute: numaNode},
		"misaligned": {devices: "1 of dra.cpu, 1 of dra.net", attribute: numaNode, differs: true},
		"nccl-0":     {devices: "1 of dra.net, 1 of gpu.nvidia.com", attribute: root},
		"nccl-1":     {devices: "1 of dra.net, 1 of gpu.nvidia.com", attribute: root},
		"gib":        {devices: "1 of dra.net, 1 of gpu.nvidia.com", attribute: root},
	}
	for _, pod := range f.awaitPods(t, namespace, len(wants)) {
		// Those of the job have its index in their names, and five letters.
		name := pod.Name
		if index := pod.Annotations["batch.kubernetes.io/job-completion-index"]; index != "" {
			name = "nccl-" + index
		}
		want, ok := wants[name]
		if !ok {
			t.Errorf("pod %s is not expected", pod.Name)
			continue
		}
		claim := *pod.Status.ResourceClaimStatuses[0].ResourceClaimName
		if got := f.devices(t, namespace, claim); got != want.devices {
			t.Errorf("pod %s has %s, want %s", pod.Name, got, want.devices)
		}
		if want.attribute == "" {
			continue
		}
		values := f.valuesOf(t, namespace, claim, want.attribute, published)
		if len(values) != 2 || values[0] == values[1] == want.differs {
			t.Errorf("pod %s: %s of its devices is %v, want them to differ: %t", pod.Name, want.attribute, values, want.differs)
		}
	}
}

// awaitPods waits until a namespace has so many pods, all of them scheduled.
func (f *gpuPage) awaitPods(t *testing.T, namespace string, many int) []corev1.Pod {
	t.Helper()
	var pods *corev1.PodList
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (_ bool, err error) {
		if pods, err = f.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{}); err != nil {
			return false, err
		}
		scheduled := 0
		for _, pod := range pods.Items {
			if pod.Spec.NodeName != "" {
				scheduled++
			}
		}
		return scheduled == many, nil
	})
	if err != nil {
		for _, pod := range pods.Items {
			t.Logf("pod %s on node %q: %+v", pod.Name, pod.Spec.NodeName, pod.Status.Conditions)
		}
		t.Fatalf("%d pods, want %d of them scheduled: %v", len(pods.Items), many, err)
	}
	return pods.Items
}

// valuesOf are the values of an attribute that a claim's devices publish.
func (f *gpuPage) valuesOf(t *testing.T, namespace, name, attribute string, published []resourceapi.ResourceSlice) []string {
	t.Helper()
	claim, err := f.ResourceV1().ResourceClaims(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	for _, result := range claim.Status.Allocation.Devices.Results {
		for _, slice := range published {
			for _, device := range slice.Spec.Devices {
				value, has := device.Attributes[resourceapi.QualifiedName(attribute)]
				if slice.Spec.Driver == result.Driver && device.Name == result.Device && has {
					values = append(values, value.String())
				}
			}
		}
	}
	return values
}
