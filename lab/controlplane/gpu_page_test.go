// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"plumbline.dev/plumbline/deploy"
	"plumbline.dev/plumbline/docs/docstest"
)

// nvidiaClasses are as NVIDIA's chart makes them (TestNVIDIAClasses).
const nvidiaClasses = `
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.nvidia.com}
spec:
  selectors: [{cel: {expression: "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"}}]
  extendedResourceName: nvidia.com/gpu
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: mig.nvidia.com}
spec: {selectors: [{cel: {expression: "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'"}}]}
`

// olderNode has GPUs of a release of NVIDIA's driver that publishes no NUMA node.
const olderNode = "nvidia-older"

// TestNVIDIAClasses renders the classes of the pinned release's chart, as the lab installs it.
func TestNVIDIAClasses(t *testing.T) {
	builtProgram(t, "nvidia/*/gpu-kubelet-plugin") // and so the module is there
	args := []string{"template", "gpus", nvidiaChart(t), "--namespace", "gpus", "--kube-version", "1.36.0", "--set", "gpuResourcesEnabledOverride=true,resources.computeDomains.enabled=false"}
	for _, class := range []string{"gpu", "mig"} {
		args = append(args, "--show-only", "templates/deviceclass-"+class+".yaml")
	}
	rendered, err := exec.Command(builtProgram(t, "helm/*/helm"), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("helm %q: %v: %s", args, err, rendered)
	}
	if diff := cmp.Diff(objectsOf(t, rendered), objectsOf(t, []byte(nvidiaClasses))); diff != "" {
		t.Errorf("nvidiaClasses are not the chart's (-chart +ours):\n%s", diff)
	}
}

// nvidiaChart is the folder of the chart in the module that the lab pins.
func nvidiaChart(t *testing.T) string {
	t.Helper()
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/dra-driver-nvidia-gpu")
	list.Dir, list.Env = "../build/nvidia", append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	found, err := list.Output()
	if err != nil {
		t.Fatalf("%s: %v", list, err)
	}
	return filepath.Join(strings.TrimSpace(string(found)), "deployments", "helm", "dra-driver-nvidia-gpu")
}

// TestGPUPage applies every manifest of docs/gpu.md to a real control plane, whose nodes
// have the slices that TestNVIDIASlices recorded, beside NICs and CPUs of that machine. The
// scheduler gives pods their devices, or refuses where the page says so.
func TestGPUPage(t *testing.T) {
	admin := serving(t)
	f := &gpuPage{newApplier(t, admin), kubernetes.NewForConfigOrDie(admin)}
	for _, class := range objectsOf(t, append(deploy.DeviceClasses(), nvidiaClasses...)) {
		if err := f.apply(t.Context(), class, "", false); err != nil {
			t.Fatal(err)
		}
	}
	for _, node := range []string{"nvidia-whole", "nvidia-mig", "nvidia-shares", olderNode} {
		f.makeNode(t, node)
	}

	wants := map[string]struct{ node, devices string }{
		"aligned":      {"nvidia-whole", "1 of dra.cpu, 1 of dra.net, 1 of gpu.nvidia.com"},
		"older":        {olderNode, "1 of dra.cpu, 1 of dra.net, 1 of gpu.nvidia.com"},
		"time-slicing": {"nvidia-whole", "1 of gpu.nvidia.com"},
		"share":        {"nvidia-shares", "1 of gpu.nvidia.com"},
		"mig":          {"nvidia-mig", "1 of dra.net, 1 of gpu.nvidia.com"},
	}
	if fences := strings.Count(docstest.Page(t, "gpu.md"), "```yaml\n"); fences != len(wants) {
		t.Errorf("%d blocks of YAML, %d are tried", fences, len(wants))
	}
	for _, b := range docstest.Blocks(t, "gpu.md") {
		if b.Kind != "manifest" {
			continue
		}
		want, ok := wants[b.Name]
		if !ok {
			t.Errorf("manifest %s is not tried", b.Name)
			continue
		}
		t.Run(b.Name, func(t *testing.T) {
			claim := f.claim(t, b.Name, b.Name)
			f.start(t, b.Name, "first", want.node, claiming(claim))
			f.awaitScheduled(t, b.Name, "first")
			if got := f.devices(t, b.Name, claim); got != want.devices {
				t.Errorf("the claim has %s, want %s", got, want.devices)
			}
		})
	}
	t.Run("a second pod with the claim", func(t *testing.T) {
		f.start(t, "time-slicing", "second", "nvidia-whole", claiming("in-turns"))
		f.awaitScheduled(t, "time-slicing", "second")
	})
	t.Run("the NUMA node of an older release", func(t *testing.T) {
		f.start(t, "never", "pod", olderNode, claiming(f.claim(t, "aligned", "never")))
		f.awaitRefused(t, "never", "pod")
	})
	t.Run("shares in namespaces", func(t *testing.T) {
		// The first of four has been given.
		for i := range 3 {
			namespace := fmt.Sprintf("share-%d", i+2)
			f.start(t, namespace, "pod", "nvidia-shares", claiming(f.claim(t, "share", namespace)))
			f.awaitScheduled(t, namespace, "pod")
		}
		f.start(t, "share-5", "pod", "nvidia-shares", claiming(f.claim(t, "share", "share-5")))
		f.awaitRefused(t, "share-5", "pod")
	})
	t.Run("limits", func(t *testing.T) {
		makePodNamespace(t, f.client, "limits")
		f.start(t, "limits", "pod", "nvidia-whole", func(spec *corev1.PodSpec) {
			spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
		})
		status := f.awaitScheduled(t, "limits", "pod").Status.ExtendedResourceClaimStatus
		if status == nil {
			t.Fatal("the pod has no claim")
		}
		if got, want := f.devices(t, "limits", status.ResourceClaimName), "1 of gpu.nvidia.com"; got != want {
			t.Errorf("the claim has %s, want %s", got, want)
		}
	})
}

// gpuPage is a control plane with nodes that have GPUs.
type gpuPage struct {
	applier
	kubernetes.Interface
}

// makeNode makes a node of which nothing runs, with GPUs as they were recorded of it.
func (f *gpuPage) makeNode(t *testing.T, name string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	node.Status.Allocatable = corev1.ResourceList{"pods": resource.MustParse("110"), "cpu": resource.MustParse("64"), "memory": resource.MustParse("64Gi")}
	if _, err := f.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	recorded := name
	if name == olderNode {
		recorded = "nvidia-whole"
	}
	published := slicesIn(t, filepath.Join(recordedSlices, recorded+".yaml"))
	for _, slice := range slicesIn(t, "../../internal/cli/testdata/slices/a3-ultragpu-8g.yaml") {
		if slice.Spec.Driver != "gpu.nvidia.com" {
			published = append(published, slice)
		}
	}
	for i, slice := range published {
		slice.Name, slice.Spec.NodeName, slice.Spec.Pool.Name = fmt.Sprintf("%s-%d", name, i), &name, name
		for _, device := range slice.Spec.Devices {
			if name == olderNode && slice.Spec.Driver == "gpu.nvidia.com" {
				delete(device.Attributes, "resource.kubernetes.io/numaNode")
			}
		}
		if _, err := f.ResourceV1().ResourceSlices().Create(t.Context(), &slice, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func slicesIn(t *testing.T, file string) []resourceapi.ResourceSlice {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []resourceapi.ResourceSlice
	for _, object := range objectsOf(t, text) {
		var slice resourceapi.ResourceSlice
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &slice); err != nil {
			t.Fatal(err)
		}
		all = append(all, slice)
	}
	return all
}

// claim applies a manifest of the page in a namespace of its own, and returns the name of
// its claim.
func (f *gpuPage) claim(t *testing.T, manifest, namespace string) string {
	t.Helper()
	makePodNamespace(t, f.client, namespace)
	objects := objectsOf(t, []byte(docstest.Get(t, "gpu.md", "manifest", manifest).Text))
	if len(objects) != 1 {
		t.Fatalf("%d objects, want a claim", len(objects))
	}
	if err := f.apply(t.Context(), objects[0], namespace, false); err != nil {
		t.Fatal(err)
	}
	return objects[0].GetName()
}

func claiming(claim string) func(*corev1.PodSpec) {
	return func(spec *corev1.PodSpec) {
		spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "devices", ResourceClaimName: &claim}}
		spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "devices"}}
	}
}

// start creates a pod for a node, which the scheduler still has to give it.
func (f *gpuPage) start(t *testing.T, namespace, name, node string, asks func(*corev1.PodSpec)) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		NodeSelector: map[string]string{corev1.LabelHostname: node},
		// No kubelet says that the node is ready.
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Containers:  []corev1.Container{{Name: "main", Image: "none"}},
	}}
	asks(&pod.Spec)
	if _, err := f.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (f *gpuPage) awaitScheduled(t *testing.T, namespace, name string) *corev1.Pod {
	t.Helper()
	return f.await(t, namespace, name, func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" })
}

// awaitRefused waits until the scheduler finds no devices for a pod.
func (f *gpuPage) awaitRefused(t *testing.T, namespace, name string) {
	t.Helper()
	f.await(t, namespace, name, func(pod *corev1.Pod) bool {
		if pod.Spec.NodeName != "" {
			t.Fatalf("the pod got a node: %s", f.devices(t, namespace, *pod.Spec.ResourceClaims[0].ResourceClaimName))
		}
		return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && strings.Contains(c.Message, "cannot allocate all claims")
		})
	})
}

func (f *gpuPage) await(t *testing.T, namespace, name string, done func(*corev1.Pod) bool) (pod *corev1.Pod) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (_ bool, err error) {
		pod, err = f.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && done(pod), err
	})
	if err != nil {
		t.Fatalf("pod %s/%s: %v: %+v", namespace, name, err, pod.Status.Conditions)
	}
	return pod
}

// devices says how many devices of each driver a claim was given.
func (f *gpuPage) devices(t *testing.T, namespace, name string) string {
	t.Helper()
	claim, err := f.ResourceV1().ResourceClaims(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if claim.Status.Allocation == nil {
		return "nothing"
	}
	of := map[string]int{}
	for _, result := range claim.Status.Allocation.Devices.Results {
		of[result.Driver]++
	}
	var words []string
	for _, driver := range slices.Sorted(maps.Keys(of)) {
		words = append(words, fmt.Sprintf("%d of %s", of[driver], driver))
	}
	return strings.Join(words, ", ")
}
