// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/explain"
	. "plumbline.dev/plumbline/internal/explain/explaintest"
)

// A pod does not fit where what it asks for is not served, whatever its claims do.
func TestDevicePlugins(t *testing.T) {
	const served, unserved = gpuResource, "example.com/fpga"
	for name, tc := range map[string]struct {
		minor    int
		resource string
		offered  string // by the node's device plugins, - without one; "" is a node without a status
		node     string // that the pod is bound to
		verdict  string
		says     string
	}{
		"nobody":                  {resource: unserved, offered: "-", verdict: explain.FitsNot, says: "example.com/fpga is not served"},
		"a device plugin":         {resource: unserved, offered: "2", verdict: explain.Fits, says: "note: what other pods have of example.com/fpga is not counted"},
		"too little":              {resource: unserved, offered: "1", verdict: explain.FitsNot, says: "have 1 of example.com/fpga, the pod asks for 2"},
		"no more":                 {resource: unserved, offered: "0", verdict: explain.FitsNot, says: "have 0 of example.com/fpga, the pod asks for 2"},
		"a class":                 {resource: served, offered: "0", verdict: explain.Fits, says: "container-0-request-1: gpu.nvidia.com/"},
		"a plugin before a class": {resource: served, offered: "1", verdict: explain.FitsNot, says: "have 1 of nvidia.com/gpu, the pod asks for 2"},
		"a class before 1.36":     {minor: 35, resource: served, offered: "-", verdict: explain.FitsNot, says: "before Kubernetes 1.36 no claim is made for it"},
		"a missing class by its name": {
			resource: "deviceclass.resource.kubernetes.io/fpga", offered: "-", verdict: explain.FitsNot, says: "deviceclass.resource.kubernetes.io/fpga is not served",
		},
		"unknown":              {resource: unserved, verdict: explain.Fits, says: "note: whether device plugins offer example.com/fpga is not known"},
		"a pod with its node":  {resource: unserved, offered: "0", node: "a3-ultragpu-8g-0", verdict: explain.Allocated},
		"the node's own kinds": {resource: "hugepages-2Mi", offered: "0", verdict: explain.Allocated},
	} {
		t.Run(name, func(t *testing.T) {
			s := A3(t, 1)
			s.Minor = tc.minor
			if tc.minor == 0 {
				s.Minor = allocation.NewestMinor
			}
			if tc.offered != "" {
				node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a3-ultragpu-8g-0"}}
				node.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("224")}
				if tc.offered != "-" {
					node.Status.Allocatable[corev1.ResourceName(tc.resource)] = resource.MustParse(tc.offered)
				}
				s.Nodes = append(s.Nodes, node)
			}
			p := containers(nil, []int64{0})
			p.Spec.NodeName = tc.node
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("1"), corev1.ResourceName(tc.resource): resource.MustParse("2")}
			r, out := text(t, s, explain.OfPod(p, nil, nil, s.Classes))
			if r.Verdict != tc.verdict || !strings.Contains(out, tc.says) {
				t.Errorf("%s, want %s and %q:\n%s", r.Verdict, tc.verdict, tc.says, out)
			}
		})
	}
}

// What init containers ask for and end before others start counts once.
func TestDevicePluginsCountAsTheScheduler(t *testing.T) {
	s := A3(t, 1)
	s.Classes = nil
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a3-ultragpu-8g-0"}}
	node.Status.Allocatable = corev1.ResourceList{gpuResource: resource.MustParse("4")}
	s.Nodes = append(s.Nodes, node)
	for _, tc := range []struct {
		init, main []int64
		want       string
	}{
		{[]int64{4}, []int64{2, 2}, explain.Fits},
		{[]int64{5}, []int64{1}, explain.FitsNot},
		{nil, []int64{2, 3}, explain.FitsNot},
		{[]int64{-2}, []int64{2}, explain.Fits},
		{[]int64{-3}, []int64{2}, explain.FitsNot},
	} {
		if r, out := text(t, s, explain.OfPod(containers(tc.init, tc.main), nil, nil, nil)); r.Verdict != tc.want {
			t.Errorf("init %v, main %v: %s, want %s:\n%s", tc.init, tc.main, r.Verdict, tc.want, out)
		}
	}
}
