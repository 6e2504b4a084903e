// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verify_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/verify"
	"plumbline.dev/plumbline/internal/verify/evaluate"
	"plumbline.dev/plumbline/internal/verify/expect"
	"plumbline.dev/plumbline/internal/verify/verifytest"
)

// part is one MIG device of GPU 0 of an A3 Ultra.
var part = verifytest.MIG{GPU: 0, Instance: 9, Start: 0, Profile: "1g.18gb"}

// A MIG device is the GPU's file with the capability files of one instance of it.
func TestMIG(t *testing.T) {
	second := verifytest.MIG{GPU: 0, Instance: 11, Start: 2, Profile: "2g.35gb"}
	for name, tt := range map[string]struct {
		devices []verifytest.MIG
		change  func(t *testing.T, n *verifytest.Node, p *verifytest.Pod, allocated *verifytest.AllocatedPod)
		status  evaluate.Status
		reason  evaluate.Code
		says    string
	}{
		"one": {devices: []verifytest.MIG{part}, status: evaluate.True,
			says: "mig-0 is gpu-0-mig-1g18gb-9-0: 1g.18gb: GPU instance 9 (/dev/nvidia-caps/nvidia-cap84, nvidia-cap85) of /dev/nvidia0 at 0000:8f:00.0"},
		"two of one GPU": {devices: []verifytest.MIG{part, second}, status: evaluate.True, says: "2g.35gb: GPU instance 9 (/dev/nvidia-caps/nvidia-cap84, nvidia-cap85), GPU instance 11"},
		"of two GPUs":    {devices: []verifytest.MIG{part, {GPU: 3, Instance: 9, Profile: "1g.18gb"}}, status: evaluate.True, says: "of /dev/nvidia3"},
		"two compute instances of one GPU instance": {
			devices: []verifytest.MIG{{Instance: 5, Profile: "1c.3g.71gb"}, {Instance: 5, Start: 1, Profile: "1c.3g.71gb"}},
			change: func(_ *testing.T, _ *verifytest.Node, p *verifytest.Pod, _ *verifytest.AllocatedPod) {
				p.Files["/dev/nvidia-caps/nvidia-cap50"] = "511:50" // the second compute instance
			},
			status: evaluate.True, says: "GPU instance 5 (/dev/nvidia-caps/nvidia-cap48, nvidia-cap49, nvidia-cap50)",
		},
		"no capability file": {devices: []verifytest.MIG{part},
			change: func(_ *testing.T, n *verifytest.Node, p *verifytest.Pod, _ *verifytest.AllocatedPod) {
				n.RemoveInstance(p, 0, 9, true, true)
			},
			status: evaluate.False, reason: evaluate.DeviceMissing, says: "has the file of the GPU 0000:8f:00.0, and no capability file of a GPU instance of it"},
		"the GPU instance's alone": {devices: []verifytest.MIG{part},
			change: func(_ *testing.T, n *verifytest.Node, p *verifytest.Pod, _ *verifytest.AllocatedPod) {
				n.RemoveInstance(p, 0, 9, false, true)
			},
			status: evaluate.False, reason: evaluate.DeviceMissing, says: "GPU instance 9 (/dev/nvidia-caps/nvidia-cap84) without a compute instance's file"},
		"the compute instance's alone": {devices: []verifytest.MIG{part},
			change: func(_ *testing.T, n *verifytest.Node, p *verifytest.Pod, _ *verifytest.AllocatedPod) {
				n.RemoveInstance(p, 0, 9, true, false)
			},
			status: evaluate.False, reason: evaluate.DeviceMissing, says: "GPU instance 9 (/dev/nvidia-caps/nvidia-cap85) without its own file"},
		"of another GPU": {devices: []verifytest.MIG{part},
			change: func(_ *testing.T, n *verifytest.Node, p *verifytest.Pod, _ *verifytest.AllocatedPod) {
				n.RemoveInstance(p, 0, 9, true, true)
				n.AddInstance(p, 1, 9)
			},
			status: evaluate.False, reason: evaluate.DeviceMissing, says: "no capability file of a GPU instance of it; there is GPU instance 9 (/dev/nvidia-caps/nvidia-cap219, nvidia-cap220) of 0000:90:00.0"},
		"one of two": {devices: []verifytest.MIG{part, second},
			change: func(_ *testing.T, n *verifytest.Node, p *verifytest.Pod, _ *verifytest.AllocatedPod) {
				n.RemoveInstance(p, 0, 11, true, true)
			},
			status: evaluate.False, reason: evaluate.DeviceMissing, says: "names 2 MIG devices of the GPU 0000:8f:00.0 and has GPU instance 9"},
		"one too many": {devices: []verifytest.MIG{part},
			change: func(_ *testing.T, n *verifytest.Node, p *verifytest.Pod, _ *verifytest.AllocatedPod) {
				n.AddInstance(p, 0, 10)
			},
			status: evaluate.False, reason: evaluate.DeviceNotClaimed, says: "no other MIG device in container main: it has GPU instance 9"},
		"the right to make instances is none": {devices: []verifytest.MIG{part},
			change: func(_ *testing.T, _ *verifytest.Node, p *verifytest.Pod, _ *verifytest.AllocatedPod) {
				p.Files["/dev/nvidia-caps/nvidia-cap2"], p.Files["/dev/nvidia-caps-imex-channels/channel0"] = "511:2", "510:0"
			},
			status: evaluate.True, says: "GPU instance 9"},
		"the GPU's file gone": {devices: []verifytest.MIG{part},
			change: func(_ *testing.T, _ *verifytest.Node, p *verifytest.Pod, _ *verifytest.AllocatedPod) {
				delete(p.Files, "/dev/nvidia0")
			},
			status: evaluate.False, reason: evaluate.DeviceMissing, says: "no device file of 0000:8f:00.0"},
		"numbers that nobody tells": {devices: []verifytest.MIG{part},
			change: func(t *testing.T, n *verifytest.Node, _ *verifytest.Pod, _ *verifytest.AllocatedPod) {
				remove(t, n, "proc/driver/nvidia-caps/mig-minors")
			},
			status: evaluate.Unknown, reason: evaluate.NotRead, says: "which GPU instance a capability file is for"},
		"a driver without capability files": {devices: []verifytest.MIG{part},
			change: func(t *testing.T, n *verifytest.Node, _ *verifytest.Pod, _ *verifytest.AllocatedPod) {
				rewrite(t, n, "proc/devices", "Character devices:\n195 nvidia\n\nBlock devices:\n511 nvidia-caps\n")
			},
			status: evaluate.Unknown, reason: evaluate.NotRead, says: "/proc/devices has no nvidia-caps"},
		"the directories of the instances": {devices: []verifytest.MIG{part},
			change: func(t *testing.T, n *verifytest.Node, _ *verifytest.Pod, _ *verifytest.AllocatedPod) {
				remove(t, n, "proc/driver/nvidia-caps/mig-minors")
				for name, minor := range map[string]int{"gi9/access": 84, "gi9/ci0/access": 85} {
					rewrite(t, n, "proc/driver/nvidia/capabilities/gpu0/mig/"+name, fmt.Sprintf("DeviceFileMinor: %d\nDeviceFileMode: 292\nDeviceFileModify: 1\n", minor))
				}
			},
			status: evaluate.True, says: "GPU instance 9 (/dev/nvidia-caps/nvidia-cap84, nvidia-cap85)"},
		"a privileged container": {devices: []verifytest.MIG{part},
			change: func(_ *testing.T, n *verifytest.Node, p *verifytest.Pod, allocated *verifytest.AllocatedPod) {
				allocated.Pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
				n.AddInstance(p, 0, 10)
			},
			status: evaluate.True, says: "it is privileged"},
		"one of a device plugin beside it": {devices: []verifytest.MIG{part},
			change: func(_ *testing.T, n *verifytest.Node, p *verifytest.Pod, allocated *verifytest.AllocatedPod) {
				allocated.Pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/mig-1g.18gb": resource.MustParse("1")}
				p.Files["/dev/nvidia5"] = n.GPUNumber(5)
				n.AddInstance(p, 5, 7)
			},
			status: evaluate.True, says: "container main has 1 of nvidia.com/mig-1g.18gb: /dev/nvidia5"},
	} {
		t.Run(name, func(t *testing.T) {
			n := verifytest.NewNode(t, "a3-ultragpu-8g")
			p := n.NewPod("infer")
			allocated := n.GiveMIG(p, tt.devices...)
			if tt.change != nil {
				tt.change(t, n, p, &allocated)
			}
			got := check(t, n, p, allocated)
			if got.Status != tt.status || tt.reason != "" && got.Reason != tt.reason || !strings.Contains(explain(got), tt.says) {
				t.Errorf("want %s (%s) and %q:\n%s", tt.status, tt.reason, tt.says, explain(got))
			}
		})
	}
}

func remove(t *testing.T, n *verifytest.Node, name string) {
	t.Helper()
	if err := os.RemoveAll(n.Path(name)); err != nil {
		t.Fatal(err)
	}
}

func rewrite(t *testing.T, n *verifytest.Node, name, text string) {
	t.Helper()
	path := n.Path(name)
	if err := os.MkdirAll(path[:strings.LastIndex(path, "/")], 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A GPU is one pod's, unless both may have it.
func TestSharedGPU(t *testing.T) {
	whole := func(t *testing.T, n *verifytest.Node, p *verifytest.Pod) verifytest.AllocatedPod {
		return n.Give(p, verifytest.Originals(), []int{0}, nil, cpuset.New())
	}
	of := func(list ...verifytest.MIG) func(*testing.T, *verifytest.Node, *verifytest.Pod) verifytest.AllocatedPod {
		return func(_ *testing.T, n *verifytest.Node, p *verifytest.Pod) verifytest.AllocatedPod {
			return n.GiveMIG(p, list...)
		}
	}
	share := func(t *testing.T, n *verifytest.Node, p *verifytest.Pod) verifytest.AllocatedPod {
		allocated := whole(t, n, p)
		allocated.Claim.Status.Allocation.Devices.Results[0].ShareID = ptr.To(types.UID("share-" + p.UID))
		return allocated
	}
	admin := func(t *testing.T, n *verifytest.Node, p *verifytest.Pod) verifytest.AllocatedPod {
		allocated := whole(t, n, p)
		allocated.Claim.Status.Allocation.Devices.Results[0].AdminAccess = ptr.To(true)
		return allocated
	}
	plugin := func(t *testing.T, n *verifytest.Node, p *verifytest.Pod) verifytest.AllocatedPod {
		allocated := n.Give(p, verifytest.Originals(), nil, nil, cpuset.New())
		allocated.Pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
		p.Files["/dev/nvidia0"] = n.GPUNumber(0)
		return allocated
	}
	sameClaim := func(t *testing.T, n *verifytest.Node, p *verifytest.Pod) verifytest.AllocatedPod {
		allocated := whole(t, n, p)
		allocated.Claim.Name = "both"
		allocated.Pod.Spec.ResourceClaims[0].ResourceClaimName = ptr.To("both")
		return allocated
	}
	beside := part
	beside.Instance, beside.Start = 10, 1
	same := part
	same.Start = 1 // another device, with the files of the first one's instance
	for name, tt := range map[string]struct {
		first, second func(*testing.T, *verifytest.Node, *verifytest.Pod) verifytest.AllocatedPod
		says          string // of both; empty where they are as claimed
	}{
		"two claims":                     {whole, whole, "no GPU serves two claims: GPU 0000:8f:00.0 is default/"},
		"one claim, in time slices":      {sameClaim, sameClaim, ""},
		"shares of one GPU":              {share, share, ""},
		"a share and the whole":          {share, whole, "no GPU serves two claims"},
		"MIG devices of one GPU":         {of(part), of(beside), ""},
		"one instance for two devices":   {of(part), of(same), "no MIG device serves two claims: compute instance 0 of GPU instance 9 of 0000:8f:00.0 is default/"},
		"the GPU and a MIG device":       {whole, of(part), "no GPU serves two claims"},
		"a claim and an administrator":   {whole, admin, ""},
		"a claim and a device plugin":    {whole, plugin, "no GPU serves a claim and a device plugin"},
		"a device plugin's, twice":       {plugin, plugin, ""},
		"a MIG device beside a plugin's": {of(part), plugin, ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := verifytest.NewNode(t, "a3-ultragpu-8g")
			a, b := n.NewPod("first"), n.NewPod("second")
			first, second := tt.first(t, n, a), tt.second(t, n, b)
			n.Write(t, a)
			n.Write(t, b)
			for _, r := range verify.Check(t.Context(), n.Machine, n.Reader(t), []expect.Pod{first.Expect(), second.Expect()}, false) {
				says := slices.ContainsFunc(r.Findings, func(f evaluate.Finding) bool {
					return f.Code == evaluate.DeviceShared && f.Differs != nil && strings.Contains(f.String(), tt.says)
				})
				if (tt.says != "") != says || (tt.says == "") != (r.Status == evaluate.True) {
					t.Errorf("%s, want %q:\n%s", r.Expected.Name, tt.says, explain(r))
				}
			}
		})
	}
}
