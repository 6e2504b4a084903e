// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verify_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/affinity"
	"plumbline.dev/plumbline/internal/verify"
	"plumbline.dev/plumbline/internal/verify/evaluate"
	"plumbline.dev/plumbline/internal/verify/expect"
	"plumbline.dev/plumbline/internal/verify/verifytest"
)

// mpiWorker is the worker of rank 0 of the tutorial of the MPI operator, as its
// published run had it: a claim of gpu2rdma0, which is on root 93, and a GPU of the
// device plugin, which gave the one on root c8.
func mpiWorker(t *testing.T) (*verifytest.Node, *verifytest.Pod, verifytest.AllocatedPod) {
	t.Helper()
	n := verifytest.NewNode(t, "a3-ultragpu-8g")
	p := n.NewPod("nccl-test-dranet-1gpu-1nic-worker-0")
	nic := slices.IndexFunc(n.Machine.NICs, func(n model.NIC) bool { return n.Interface != nil && n.Interface.Name == "gpu2rdma0" })
	allocated := n.Give(p, verifytest.Originals(), nil, []int{nic}, cpuset.New())
	allocated.Pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	p.Files["/dev/nvidia7"], p.Files["/dev/nvidiactl"] = n.GPUNumber(7), "195:255"
	return n, p, allocated
}

func check(t *testing.T, n *verifytest.Node, p *verifytest.Pod, allocated verifytest.AllocatedPod) verify.Result {
	t.Helper()
	n.Write(t, p)
	return verify.Check(t.Context(), n.Machine, n.Reader(t), []expect.Pod{allocated.Expect()}, false)[0]
}

// The GPU that a device plugin gave stands beside the NIC that a claim has.
func TestGPUOfADevicePlugin(t *testing.T) {
	n, p, allocated := mpiWorker(t)
	got := check(t, n, p, allocated)
	if len(got.Components) == 0 || got.Components[0].Name != "/dev/nvidia7" || got.Components[0].Resource != "nvidia.com/gpu" || got.Components[0].Root != "pci0000:c8" {
		t.Fatalf("%+v", got.Components)
	}
	if pair := got.Pairs[0]; pair.A != "/dev/nvidia7" || pair.B != "net0" || pair.Class != affinity.SYS || pair.Nearest != affinity.PIX {
		t.Errorf("%+v", pair)
	}
	if near := got.Nearness(); near.Status != evaluate.False || near.Reason != evaluate.FartherThanPossible {
		t.Errorf("%+v, want it farther than possible", near)
	}
	for _, want := range []string{
		"container main has 1 of nvidia.com/gpu: /dev/nvidia7 at 0000:cc:00.0, root pci0000:c8, NUMA node 1",
		"/dev/nvidia7 of nvidia.com/gpu beside net0: SYS, across the link between NUMA nodes: /dev/nvidia7 pci0000:c8, net0 pci0000:93",
	} {
		if !slices.ContainsFunc(got.Findings, func(f evaluate.Finding) bool { return f.String() == want }) {
			t.Errorf("no finding says %q:\n%s", want, explain(got))
		}
	}
	report := verify.NewReport(n.Machine, n.Name, time.Time{}, []verify.Result{got})
	if r := report.Pods[0].Components[0].Resource; r != "nvidia.com/gpu" {
		t.Errorf("the report says %q of the GPU", r)
	}
}

func TestNumberOfPluginGPUs(t *testing.T) {
	for name, tt := range map[string]struct {
		change     func(n *verifytest.Node, p *verifytest.Pod, allocated *verifytest.AllocatedPod)
		state      evaluate.State
		says       string
		components int // of the plugin
	}{
		"more than asked for": {func(n *verifytest.Node, p *verifytest.Pod, _ *verifytest.AllocatedPod) {
			p.Files["/dev/nvidia2"] = n.GPUNumber(2)
		},
			evaluate.StateWrong, "main has 1 of nvidia.com/gpu: /dev/nvidia2", 2},
		"two names of one GPU": {func(n *verifytest.Node, p *verifytest.Pod, _ *verifytest.AllocatedPod) {
			p.Files["/dev/gpu"] = n.GPUNumber(7)
		},
			evaluate.StateOK, "main has 1 of nvidia.com/gpu", 1},
		"replicas of one GPU": {func(_ *verifytest.Node, _ *verifytest.Pod, allocated *verifytest.AllocatedPod) {
			allocated.Pod.Spec.Containers[0].Resources.Limits["nvidia.com/gpu"] = resource.MustParse("2")
		}, evaluate.StateNote, "main has 2 of nvidia.com/gpu: /dev/nvidia7", 1},
		"the name of shared GPUs": {func(_ *verifytest.Node, _ *verifytest.Pod, allocated *verifytest.AllocatedPod) {
			allocated.Pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu.shared": resource.MustParse("1")}
		}, evaluate.StateOK, "main has 1 of nvidia.com/gpu.shared", 1},
		"none": {func(_ *verifytest.Node, p *verifytest.Pod, _ *verifytest.AllocatedPod) {
			delete(p.Files, "/dev/nvidia7")
		},
			evaluate.StateNote, "no device file of such a GPU", 0},
		"another vendor's": {func(_ *verifytest.Node, _ *verifytest.Pod, allocated *verifytest.AllocatedPod) {
			allocated.Pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"amd.com/gpu": resource.MustParse("1")}
		}, evaluate.StateNote, "no device file of such a GPU", 0},
		"no GPUs by name": {func(_ *verifytest.Node, _ *verifytest.Pod, allocated *verifytest.AllocatedPod) {
			allocated.Pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/hostdev": resource.MustParse("1"), "nvidia.com/gpu": resource.MustParse("0")}
		}, "", "", 0},
		"two resources of one vendor": {func(n *verifytest.Node, p *verifytest.Pod, allocated *verifytest.AllocatedPod) {
			allocated.Pod.Spec.Containers[0].Resources.Limits["nvidia.com/gpu.shared"] = resource.MustParse("1")
			p.Files["/dev/nvidia2"] = n.GPUNumber(2)
		}, evaluate.StateOK, "main has 2 of nvidia.com/gpu, nvidia.com/gpu.shared: /dev/nvidia2", 2},
		"a privileged container": {func(n *verifytest.Node, p *verifytest.Pod, allocated *verifytest.AllocatedPod) {
			allocated.Pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
			p.Files["/dev/nvidia2"] = n.GPUNumber(2)
		}, evaluate.StateNote, "it is privileged", 0},
		"beside a claim that cannot be read": {func(n *verifytest.Node, p *verifytest.Pod, allocated *verifytest.AllocatedPod) {
			allocated.Pod.Spec.ResourceClaims = append(allocated.Pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "gone", ResourceClaimName: ptr.To("gone")})
			p.Files["/dev/nvidia2"] = n.GPUNumber(2)
		}, evaluate.StateUnknown, "which GPUs its claims have is not known", 2},
		"a DRA driver serves the resource": {func(_ *verifytest.Node, _ *verifytest.Pod, allocated *verifytest.AllocatedPod) {
			allocated.Pod.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{
				ResourceClaimName: allocated.Claim.Name,
				RequestMappings:   []corev1.ContainerExtendedResourceRequest{{ContainerName: "main", ResourceName: "nvidia.com/gpu", RequestName: "r"}},
			}
		}, "", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			n, p, allocated := mpiWorker(t)
			tt.change(n, p, &allocated)
			got := check(t, n, p, allocated)
			var about []evaluate.Finding
			for _, f := range got.Findings {
				if strings.Contains(f.What, "container main has") {
					about = append(about, f)
				}
			}
			switch {
			case tt.state == "" && len(about) == 0:
			case len(about) != 1 || about[0].State != tt.state || !strings.Contains(about[0].String(), tt.says):
				t.Errorf("want %s and %q:\n%s", tt.state, tt.says, explain(got))
			}
			components := 0
			for _, component := range got.Components {
				if component.Resource != "" {
					components++
				}
			}
			if components != tt.components {
				t.Errorf("%d GPUs of the plugin, want %d: %+v", components, tt.components, got.Components)
			}
		})
	}
}

// Which GPU a privileged container was given nobody knows, nor how near it is.
func TestPluginGPUOfAPrivilegedContainer(t *testing.T) {
	n, p, allocated := mpiWorker(t)
	allocated.Pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
	got := check(t, n, p, allocated)
	if near := got.Nearness(); got.Status != evaluate.True || near.Status != evaluate.Unknown || near.Reason != evaluate.GPUNotKnown {
		t.Errorf("as claimed %s, %+v, want True and Unknown:\n%s", got.Status, near, explain(got))
	}
}

// A GPU of a device plugin beside a claimed one is not one that nobody gave.
func TestPluginGPUBesideAClaimedOne(t *testing.T) {
	n := verifytest.NewNode(t, "a3-ultragpu-8g")
	p := n.NewPod("both")
	allocated := n.Give(p, verifytest.Originals(), []int{0}, []int{0}, cpuset.New())
	allocated.Pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	p.Files["/dev/nvidia7"] = n.GPUNumber(7)
	for _, f := range check(t, n, p, allocated).Findings {
		if f.State == evaluate.StateWrong || f.State == evaluate.StateUnknown {
			t.Errorf("%s", f)
		}
	}
	p.Files["/dev/nvidia6"] = n.GPUNumber(6)
	if got := check(t, n, p, allocated); got.Reason != evaluate.DeviceNotClaimed {
		t.Error(explain(got))
	}
}
