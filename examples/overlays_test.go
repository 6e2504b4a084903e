// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package examples_test

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
)

// labImage is the only image there is in the lab.
const labImage = "plumbline.dev/lab/busybox:latest"

// TestOverlaysReplaceImageAndCommandOnly compares each object of an overlay
// with the manifest's, once image and command are out of sight.
func TestOverlaysReplaceImageAndCommandOnly(t *testing.T) {
	tests := []struct {
		folder string
		// left are the manifest's objects that the overlay leaves out.
		left []string
		// added are objects that the lab needs and the document does not give.
		added []string
	}{
		{folder: "gke-device-alignment"},
		{
			folder: "distributed-training-numa",
			added:  []string{"Pod h100-numa-aligned", "Pod h100-numa-unaligned"},
		},
		{
			folder: "mpi-operator-gpudirect",
			left:   []string{"MPIJob nccl-test-dranet-1gpu-1nic"},
			added:  []string{"Pod nccl-test-dranet-worker-0"},
		},
		{folder: "tpu-v6e-multi-nic"},
		{folder: "network-operator-egx"},
		{folder: "exclusive-cpus"},
		{folder: "gpu-time-slicing"},
	}
	for _, tc := range tests {
		t.Run(tc.folder, func(t *testing.T) {
			want := build(t, filepath.Join(tc.folder, "manifests"))
			got := build(t, filepath.Join(tc.folder, "lab"))
			for _, name := range tc.left {
				delete(want, name)
			}
			for _, name := range tc.added {
				delete(got, name)
			}
			for _, object := range want {
				hide(object)
			}
			for name, object := range got {
				checkRunnable(t, name, object)
				hide(object)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the overlay changes more than image and command (-manifest +overlay):\n%s", diff)
			}
		})
	}
}

// TestWorkerIsTheJobs holds the lab's plain pod to the worker of the
// document's MPIJob.
func TestWorkerIsTheJobs(t *testing.T) {
	job := build(t, "mpi-operator-gpudirect/manifests")["MPIJob nccl-test-dranet-1gpu-1nic"].(*mpiJob)
	pod := build(t, "mpi-operator-gpudirect/lab")["Pod nccl-test-dranet-worker-0"].(*corev1.Pod)
	checkRunnable(t, pod.Name, pod)
	want := &corev1.Pod{Spec: job.Spec.MPIReplicaSpecs["Worker"].Template.Spec}
	hide(want)
	hide(pod)
	if diff := cmp.Diff(want.Spec, pod.Spec); diff != "" {
		t.Errorf("the pod is not the job's worker (-job +pod):\n%s", diff)
	}
}

// TestSysctlsNeedNoInitContainer holds the claim of the overlay to what the
// document's privileged container writes.
func TestSysctlsNeedNoInitContainer(t *testing.T) {
	before, after := build(t, "tpu-v6e-multi-nic/manifests"), build(t, "tpu-v6e-multi-nic/sysctls")
	script := podSpec(before["StatefulSet neper"]).InitContainers[0].Command[2]
	want := map[string]string{}
	for _, m := range regexp.MustCompile(`echo "?([^">]+?)"? > /proc/sys/(\S+)`).FindAllStringSubmatch(script, -1) {
		want[strings.ReplaceAll(m[2], "/", ".")] = m[1]
	}
	if len(want) != strings.Count(script, "echo") || len(want) == 0 {
		t.Fatalf("read %v of:\n%s", want, script)
	}
	if left := podSpec(after["StatefulSet neper"]).InitContainers; len(left) > 0 {
		t.Errorf("the init container is there: %v", left)
	}
	template, ok := after["ResourceClaimTemplate tpu-net-interfaces"].(*resourcev1beta1.ResourceClaimTemplate)
	if !ok {
		t.Fatalf("%T", after["ResourceClaimTemplate tpu-net-interfaces"])
	}
	var parameters struct {
		Sysctls map[string]string `json:"sysctls"`
	}
	if err := json.Unmarshal(template.Spec.Spec.Devices.Config[0].Opaque.Parameters.Raw, &parameters); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, parameters.Sysctls); diff != "" {
		t.Errorf("the claim's sysctls are not the script's (-script +claim):\n%s", diff)
	}
}

// podSpec is the pod inside an object, or nil.
func podSpec(object any) *corev1.PodSpec {
	switch o := object.(type) {
	case *corev1.Pod:
		return &o.Spec
	case *appsv1.StatefulSet:
		return &o.Spec.Template.Spec
	}
	return nil
}

func containers(object any) []*corev1.Container {
	spec := podSpec(object)
	if spec == nil {
		return nil
	}
	var all []*corev1.Container
	for i := range spec.InitContainers {
		all = append(all, &spec.InitContainers[i])
	}
	for i := range spec.Containers {
		all = append(all, &spec.Containers[i])
	}
	return all
}

// hide takes away what an overlay may change. The pull policy goes with the
// image: one tagged latest would be pulled every time.
func hide(object any) {
	for _, c := range containers(object) {
		c.Image, c.ImagePullPolicy, c.Command, c.Args = "", "", nil, nil
	}
}

// checkRunnable fails where an overlay forgot a container.
func checkRunnable(t *testing.T, name string, object any) {
	t.Helper()
	for _, c := range containers(object) {
		if c.Image != labImage || c.ImagePullPolicy != corev1.PullIfNotPresent || len(c.Command) == 0 || len(c.Args) != 0 {
			t.Errorf("%s: container %s would not run in the lab: image %s, pull %s, command %q, args %q",
				name, c.Name, c.Image, c.ImagePullPolicy, c.Command, c.Args)
		}
	}
}
