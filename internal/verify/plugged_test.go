// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verify_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/verify"
	"plumbline.dev/plumbline/internal/verify/evaluate"
	"plumbline.dev/plumbline/internal/verify/expect"
	"plumbline.dev/plumbline/internal/verify/verifytest"
)

// A GPU that a claim has is no other pod's by a device plugin, whether that pod has claims
// and is looked at, or not.
func TestPluggedGPU(t *testing.T) {
	const says = "no GPU serves a claim and a device plugin"
	for name, tt := range map[string]struct {
		gpu     int // of the claim
		mig     bool
		admin   bool
		plugged func(n *verifytest.Node) []verify.Plugged
		beside  bool // a pod with a claim has the same GPU of the plugin, by its device file
		times   int  // that it is said
		status  evaluate.Status
	}{
		"by a pod without a claim": {plugged: pluggedAs("team", "thief", 0), times: 1, status: evaluate.False},
		"by two, said once": {plugged: func(n *verifytest.Node) []verify.Plugged {
			return append(pluggedAs("team", "a", 0)(n), pluggedAs("team", "b", 0)(n)...)
		}, times: 1, status: evaluate.False},
		"another GPU":                 {gpu: 1, plugged: pluggedAs("team", "thief", 0), status: evaluate.True},
		"of which the claim has part": {mig: true, plugged: pluggedAs("team", "thief", 0), times: 1, status: evaluate.False},
		"an administrator's":          {admin: true, plugged: pluggedAs("team", "thief", 0), status: evaluate.True},
		"the pod itself":              {plugged: pluggedAs("default", "train-0", 0), status: evaluate.True},
		"a pod that was looked at":    {plugged: pluggedAs("default", "beside", 0), beside: true, times: 1, status: evaluate.False},
	} {
		t.Run(name, func(t *testing.T) {
			n := verifytest.NewNode(t, "a3-ultragpu-8g")
			p := n.NewPod("train-0")
			var allocated verifytest.AllocatedPod
			if tt.mig {
				allocated = n.GiveMIG(p, verifytest.MIG{GPU: 0, Profile: "1g.18gb", Instance: 9})
			} else {
				allocated = n.Give(p, verifytest.Originals(), []int{tt.gpu}, nil, cpuset.New())
			}
			if tt.admin {
				allocated.Claim.Status.Allocation.Devices.Results[0].AdminAccess = ptr.To(true)
			}
			n.Write(t, p)
			expected := []expect.Pod{allocated.Expect()}
			if tt.beside {
				b := n.NewPod("beside")
				other := n.Give(b, verifytest.Originals(), nil, nil, cpuset.New())
				other.Pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
				b.Files["/dev/nvidia0"] = n.GPUNumber(0)
				n.Write(t, b)
				expected = append(expected, other.Expect())
			}
			results := verify.Check(t.Context(), n.Machine, n.Reader(t), expected, false)
			verify.AgainstPlugins(results, tt.plugged(n))
			times := 0
			for _, f := range results[0].Findings {
				if strings.Contains(f.String(), says) && f.Code == evaluate.DeviceShared && f.Claim != "" {
					times++
				}
			}
			if times != tt.times || results[0].Status != tt.status {
				t.Errorf("said %d times, %s; want %d times, %s:\n%s", times, results[0].Status, tt.times, tt.status, explain(results[0]))
			}
		})
	}
}

func pluggedAs(namespace, pod string, gpu int) func(*verifytest.Node) []verify.Plugged {
	return func(n *verifytest.Node) []verify.Plugged {
		return []verify.Plugged{{Namespace: namespace, Pod: pod, Resource: "nvidia.com/gpu", PCI: n.Machine.GPUs[gpu].PCI}}
	}
}

// What cannot be told changes no verdict, and is said of pods with GPUs alone.
func TestPluginsUnknown(t *testing.T) {
	n := verifytest.NewNode(t, "a3-ultragpu-8g")
	a, b := n.NewPod("with"), n.NewPod("without")
	with, without := n.Give(a, verifytest.Originals(), []int{0}, nil, cpuset.New()), n.Give(b, verifytest.Originals(), nil, []int{0}, cpuset.New())
	n.Write(t, a)
	n.Write(t, b)
	results := verify.Check(t.Context(), n.Machine, n.Reader(t), []expect.Pod{with.Expect(), without.Expect()}, false)
	if !verify.HaveGPUs(results) || verify.HaveGPUs(results[1:]) {
		t.Error("want the first pod alone to have GPUs")
	}
	verify.PluginsUnknown(results, "kubelet.sock: no such file")
	for i, want := range []bool{true, false} {
		said := slices.ContainsFunc(results[i].Findings, func(f evaluate.Finding) bool {
			return f.State == evaluate.StateNote && strings.Contains(f.Why, "kubelet.sock")
		})
		if said != want || results[i].Status != evaluate.True {
			t.Errorf("%s: said %t, %s", results[i].Expected.Name, said, results[i].Status)
		}
	}
}
