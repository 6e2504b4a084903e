// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"bytes"
	"context"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
)

func opaque(text string) resourceapi.DeviceConfiguration {
	return resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
		Driver: "dra.net", Parameters: runtime.RawExtension{Raw: []byte(text)}}}
}

// liveObjects are a class, and a claim that the scheduler has given two NICs,
// and a GPU that is not our matter.
func liveObjects() []runtime.Object {
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "rail"}}
	class.Spec.Config = []resourceapi.DeviceClassConfiguration{{DeviceConfiguration: opaque(`{"interface": {"mtu": 9000}}`)}}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "training", Name: "rails"}}
	claim.Spec.Devices = resourceapi.DeviceClaim{
		Requests: []resourceapi.DeviceRequest{
			{Name: "rail", FirstAvailable: []resourceapi.DeviceSubRequest{{Name: "fast", DeviceClassName: "rail"}, {Name: "slow", DeviceClassName: "gone"}}},
			{Name: "look", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "rail", AdminAccess: ptr.To(true)}},
		},
		Config: []resourceapi.DeviceClaimConfiguration{{Requests: []string{"rail"}, DeviceConfiguration: opaque(`{"interface": {"name": "net1"}}`)}},
	}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{
			{Request: "rail/fast", Driver: "dra.net", Pool: "node-1", Device: "pci-0000-91-00-0"},
			{Request: "look", Driver: "dra.net", Pool: "node-1", Device: "pci-0000-93-00-0", AdminAccess: ptr.To(true)},
			{Request: "gpu", Driver: "gpu.nvidia.com", Pool: "node-1", Device: "gpu-0"},
		},
		Config: []resourceapi.DeviceAllocationConfiguration{
			{Source: resourceapi.AllocationConfigSourceClass, Requests: []string{"rail/fast"}, DeviceConfiguration: opaque(`{"interface": {"mtu": 9000}}`)},
			{Source: resourceapi.AllocationConfigSourceClaim, Requests: []string{"rail"}, DeviceConfiguration: opaque(`{"interface": {"name": "net1"}}`)},
		},
	}}
	template := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "training", Name: "rails"}}
	template.Spec.Spec = *claim.Spec.DeepCopy()
	return []runtime.Object{class, claim, template}
}

func live(t *testing.T, args ...string) *inputs {
	t.Helper()
	refs, err := cmdutil.ParseReferences(args, cmdutil.KindClaim, cmdutil.KindTemplate, cmdutil.KindClass)
	if err != nil {
		t.Fatal(err)
	}
	in, err := readCluster(context.Background(), fake.NewClientset(liveObjects()...), "training", refs)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func TestRenderAnAllocatedClaim(t *testing.T) {
	all, err := render(live(t, "claim/rails", "resourceclaimtemplate/rails"))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := writeText(&out, all); err != nil {
		t.Fatal(err)
	}
	requireGolden(t, "live.txt", out.String())
}

func TestLintTheCluster(t *testing.T) {
	r := lint(live(t, "claim/rails", "class/rail"))
	if r.Checked != 2 || r.Errors > 0 {
		t.Errorf("%+v", r)
	}
}

func TestWhatIsNotInTheCluster(t *testing.T) {
	_, err := readCluster(context.Background(), fake.NewClientset(), "training", []cmdutil.Reference{{Kind: cmdutil.KindClaim, Name: "gone"}})
	if want := `get ResourceClaim training/gone: resourceclaims.resource.k8s.io "gone" not found`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
