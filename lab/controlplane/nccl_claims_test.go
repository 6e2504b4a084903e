// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/nodeslices"
)

// TestPairsOfTopologyFiles has the scheduler allocate the claims of docs/nccl.md on nodes
// whose GPUs and NICs have no PCIe root in common, with the feature gate that some need.
func TestPairsOfTopologyFiles(t *testing.T) {
	admin := servingWith(t, "DRADerivedAttributes=true")
	client := kubernetes.NewForConfigOrDie(admin)
	for class, driver := range map[string]string{"gpu.nvidia.com": "gpu.nvidia.com", "dranet.net": "dra.net"} {
		c := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: class}}
		c.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "` + driver + `"`}}}
		if _, err := client.ResourceV1().DeviceClasses().Create(t.Context(), c, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	azure, err := machine.Open("azure-nd96isr-h100-v5")
	if err != nil {
		t.Fatal(err)
	}
	published, _, err := nodeslices.OfFile(t.Context(), azure, nodeslices.Options{Node: "azure"})
	if err != nil {
		t.Fatal(err)
	}
	addNode(t, client, "azure", published)
	addNode(t, client, "data-direct", dataDirectSlices())
	for name, want := range map[string]map[string]string{
		"pair":        {"gpu": "gpu-2", "nic": "pci-0103-00-00-0"},
		"derived":     {"gpu": "gpu-5", "nic": "pci-0106-00-00-0"},
		"data-direct": {"gpu": "gpu-1", "nic": "pci-0000-02-00-0"},
	} {
		t.Run(name, func(t *testing.T) {
			got := allocated(t, client, documentedClaim(t, name))
			for request, device := range want {
				if got[request] != device {
					t.Errorf("%s is %q, want %q", request, got[request], device)
				}
			}
		})
	}
	// By NUMA node any NIC of the GPU's will do.
	got := allocated(t, client, documentedClaim(t, "numa"))
	if gpu, nic := got["gpu"], got["nic"]; !strings.Contains("gpu-0 gpu-1 gpu-2 gpu-3", gpu) || !strings.Contains("pci-0101-00-00-0 pci-0102-00-00-0 pci-0103-00-00-0 pci-0104-00-00-0", nic) {
		t.Errorf("NUMA node 0 has neither %s nor %s", gpu, nic)
	}
}

// dataDirectSlices are of a node whose second NIC reaches the second GPU by a Data Direct
// function.
func dataDirectSlices() []resourceapi.ResourceSlice {
	text := func(values ...string) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
		attributes := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
		for i := 0; i < len(values); i += 2 {
			attributes[resourceapi.QualifiedName(values[i])] = resourceapi.DeviceAttribute{StringValue: &values[i+1]}
		}
		return attributes
	}
	const root, direct, address = "resource.kubernetes.io/pcieRoot", "plumbline.dev/dataDirectRoot", "resource.kubernetes.io/pciBusID"
	slice := func(driver string, devices ...resourceapi.Device) resourceapi.ResourceSlice {
		return resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: "data-direct-" + driver},
			Spec: resourceapi.ResourceSliceSpec{
				Driver: driver, NodeName: new("data-direct"), Devices: devices,
				Pool: resourceapi.ResourcePool{Name: "data-direct", Generation: 1, ResourceSliceCount: 1},
			},
		}
	}
	return []resourceapi.ResourceSlice{
		slice("gpu.nvidia.com",
			resourceapi.Device{Name: "gpu-0", Attributes: text(root, "pci0008:00", address, "0008:01:00.0")},
			resourceapi.Device{Name: "gpu-1", Attributes: text(root, "pci0009:00", address, "0009:01:00.0")}),
		slice("dra.net",
			resourceapi.Device{Name: "pci-0000-01-00-0", Attributes: text(root, "pci0000:00", address, "0000:01:00.0")},
			resourceapi.Device{Name: "pci-0000-02-00-0", Attributes: text(root, "pci0000:00", address, "0000:02:00.0", direct, "pci0009:00")}),
	}
}

// addNode makes a node that the scheduler takes for ready, and publishes its devices.
func addNode(t *testing.T, client kubernetes.Interface, name string, published []resourceapi.ResourceSlice) {
	t.Helper()
	node, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	room := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("100"), corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("8Gi")}
	patch, err := yaml.Marshal(map[string]any{"status": corev1.NodeStatus{
		Capacity: room, Allocatable: room,
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}},
	}})
	if err == nil {
		patch, err = yaml.YAMLToJSON(patch)
	}
	if err == nil {
		_, err = client.CoreV1().Nodes().PatchStatus(t.Context(), node.Name, patch)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range published {
		if _, err := client.ResourceV1().ResourceSlices().Create(t.Context(), &published[i], metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// documentedClaim is a manifest of docs/nccl.md.
func documentedClaim(t *testing.T, name string) *resourceapi.ResourceClaim {
	t.Helper()
	page, err := os.ReadFile("../../docs/nccl.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(page), "<!-- manifest: "+name+" -->\n```yaml\n")
	block, _, closed := strings.Cut(block, "```")
	var claim resourceapi.ResourceClaim
	if err := yaml.UnmarshalStrict([]byte(block), &claim); err != nil || !found || !closed {
		t.Fatalf("manifest %s: found %t, %v", name, found && closed, err)
	}
	return &claim
}

// allocated makes a claim and a pod that wants it, and waits for what it gets: devices by
// request.
func allocated(t *testing.T, client kubernetes.Interface, claim *resourceapi.ResourceClaim) map[string]string {
	t.Helper()
	const ns = metav1.NamespaceDefault
	if _, err := client.ResourceV1().ResourceClaims(ns).Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: claim.Name}, Spec: corev1.PodSpec{
		Tolerations:    []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		ResourceClaims: []corev1.PodResourceClaim{{Name: "devices", ResourceClaimName: &claim.Name}},
		Containers: []corev1.Container{{
			Name: "c", Image: "none", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "devices"}}},
		}},
	}}
	devices := map[string]string{}
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		if pod != nil { // until the namespace has its service account
			if _, last = client.CoreV1().Pods(ns).Create(ctx, pod, metav1.CreateOptions{}); last != nil {
				return false, nil
			}
			pod = nil
		}
		now, err := client.ResourceV1().ResourceClaims(ns).Get(ctx, claim.Name, metav1.GetOptions{})
		if err != nil || now.Status.Allocation == nil {
			return false, err
		}
		for _, r := range now.Status.Allocation.Devices.Results {
			devices[r.Request] = r.Device
		}
		return true, nil
	})
	if err != nil {
		t.Fatalf("claim %s: %v, %v; %s", claim.Name, err, last, why(t, client, claim.Name))
	}
	return devices
}

// why is what the scheduler says of a pod.
func why(t *testing.T, client kubernetes.Interface, pod string) string {
	t.Helper()
	now, err := client.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), pod, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	var said []string
	for _, c := range now.Status.Conditions {
		said = append(said, c.Message)
	}
	return strings.Join(said, "; ")
}
