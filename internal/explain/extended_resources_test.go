// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/explain"
	. "plumbline.dev/plumbline/internal/explain/explaintest"
)

const gpuResource = "nvidia.com/gpu"

// containers are of a pod without claims: each asks for a number of GPUs.
func containers(init, main []int64) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "trainer"}}
	of := func(n int64) corev1.Container {
		c := corev1.Container{Name: "c"}
		if n < 0 { // one that stays
			n, c.RestartPolicy = -n, ptr.To(corev1.ContainerRestartPolicyAlways)
		}
		c.Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("1"), gpuResource: *resource.NewQuantity(n, resource.DecimalSI)}
		return c
	}
	for _, n := range init {
		p.Spec.InitContainers = append(p.Spec.InitContainers, of(n))
	}
	for _, n := range main {
		p.Spec.Containers = append(p.Spec.Containers, of(n))
	}
	return p
}

// The claim for extended resources is that of the scheduler: what lasts counts
// together, and the largest init container asks for what it wants beyond.
func TestExtendedResources(t *testing.T) {
	s := A3(t, 1)
	for _, tc := range []struct {
		init, main []int64
		want       string
	}{
		{nil, []int64{2}, "container-0-request-1=2"},
		{nil, []int64{0}, ""},
		{nil, []int64{1, 3}, "container-0-request-1=1 container-1-request-1=3"},
		{[]int64{2}, []int64{2}, "container-1-request-1=2"},
		{[]int64{3, 5, 4}, []int64{1}, "container-1-request-1=4 container-3-request-1=1"},
		{[]int64{3, -2, 4}, []int64{1}, "container-1-request-1=2 container-2-request-1=3 container-3-request-1=1"},
		{[]int64{3, -2}, []int64{1}, "container-1-request-1=2 container-2-request-1=1"},
	} {
		subject := explain.OfPod(containers(tc.init, tc.main), nil, nil, s.Classes)
		var got []string
		for _, c := range subject.Claims {
			for _, r := range c.Spec.Devices.Requests {
				got = append(got, fmt.Sprintf("%s=%d", r.Name, r.Exactly.Count))
			}
		}
		if text := strings.Join(got, " "); text != tc.want {
			t.Errorf("init %v, main %v: %q, want %q", tc.init, tc.main, text, tc.want)
		}
	}
}

// On a node with a device plugin the scheduler makes no claim for what the plugin
// offers, and before 1.36 nowhere.
func TestExtendedResourcesOfPlugins(t *testing.T) {
	for minor, want := range map[int]string{allocation.NewestMinor: explain.FitsNot, 35: explain.Fits} {
		s := A3(t, 3)
		s.Minor = minor
		plugin := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a3-ultragpu-8g-1"}}
		plugin.Status.Allocatable = corev1.ResourceList{gpuResource: resource.MustParse("16")}
		s.Nodes = append(s.Nodes, plugin)
		r, out := text(t, s, explain.OfPod(containers(nil, []int64{9}), nil, nil, s.Classes))
		verdicts := map[string]string{}
		for _, g := range r.Groups {
			for _, n := range g.Nodes {
				verdicts[n] = g.Verdict
			}
		}
		if r.Verdict != explain.Fits || verdicts["a3-ultragpu-8g-0"] != want || verdicts["a3-ultragpu-8g-1"] != explain.Fits {
			t.Errorf("1.%d: %v, want %q without a plugin:\n%s", minor, verdicts, want, out)
		}
	}
}

// A pod that asks for nothing has nothing allocated.
func TestPodWithoutClaims(t *testing.T) {
	s := A3(t, 1)
	_, out := text(t, s, explain.OfPod(containers(nil, []int64{0}), nil, nil, s.Classes))
	if out != "Pod default/trainer asks for no devices by a claim\n" {
		t.Errorf("%q", out)
	}
}
