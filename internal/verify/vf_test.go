// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verify_test

import (
	"errors"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/verify"
	"plumbline.dev/plumbline/internal/verify/collect"
	"plumbline.dev/plumbline/internal/verify/evaluate"
	"plumbline.dev/plumbline/internal/verify/expect"
	"plumbline.dev/plumbline/internal/verify/verifytest"
)

// A card that is reset under a pod forgets what the claim had set of its virtual function:
// that is flagged at the next look, and well again when somebody has set it again. While
// nobody can know, nobody is blamed, and how near the NIC is stays known.
func TestPhysicalFunctionReset(t *testing.T) {
	n := verifytest.NewNode(t, "a3-ultragpu-8g")
	p := n.NewPod("train")
	allocated := n.Give(p, verifytest.Ours(), []int{0}, []int{0}, cpuset.New(4, 5, 6, 7))
	n.Write(t, p)
	pf := n.MakeVF(t, 0, 7)
	allocated.Claim.Status.Allocation.Devices.Config = []resourceapi.DeviceAllocationConfiguration{{
		Source: resourceapi.AllocationConfigSourceClaim, Requests: []string{"nic-0"},
		DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
			Driver: slicecodec.DriverNet, Parameters: runtime.RawExtension{Raw: []byte(`{"interface": {"hardwareAddr": "02:00:00:00:aa:01", "vf": {"vlan": 100, "trust": false}}}`)},
		}},
	}}
	for i := range allocated.Slices {
		for k := range allocated.Slices[i].Spec.Devices {
			if d := &allocated.Slices[i].Spec.Devices[k]; d.Name == slicecodec.NICName(n.Machine.NICs[0]) {
				d.Attributes[slicecodec.AttrPFAddress] = resourceapi.DeviceAttribute{StringValue: ptr.To(pf.String())}
			}
		}
	}
	var told collect.VFSettings
	var fails error
	asked := 0
	options := n.Options(t)
	options.PhysicalFunction = func(index int) (map[int]collect.VFSettings, error) {
		if asked++; index != 7 {
			t.Errorf("link %d is asked, want 7", index)
		}
		return map[int]collect.VFSettings{3: told}, fails
	}
	r, err := collect.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	good := func() collect.VFSettings {
		return collect.VFSettings{MAC: ptr.To("02:00:00:00:aa:01"), VLAN: &collect.VFVLAN{ID: 100, Protocol: 0x8100}, Trust: ptr.To(false)}
	}
	for _, step := range []struct {
		name   string
		told   collect.VFSettings
		fails  error
		status evaluate.Status
		says   string
	}{
		{"as claimed", good(), nil, evaluate.True, ""},
		{"reset", collect.VFSettings{MAC: ptr.To("00:00:00:00:00:00"), VLAN: &collect.VFVLAN{Protocol: 0x8100}, Trust: ptr.To(false)}, nil, evaluate.False,
			"physical function ens9 says 0, vlanQoS 0 of its virtual function 3, the claim 100, vlanQoS 0"},
		{"set again", good(), nil, evaluate.True, ""},
		{"not known", good(), errors.New("no such device"), evaluate.Unknown, "physical function ens9: no such device"},
		{"known again", good(), nil, evaluate.True, ""},
	} {
		told, fails = step.told, step.fails
		got := verify.Check(t.Context(), n.Machine, r, []expect.Pod{allocated.Expect()}, false)[0]
		if got.Status != step.status || !strings.Contains(got.Message, step.says) || got.Status == evaluate.False && got.Reason != evaluate.VFSettingsWrong {
			t.Errorf("%s: %s", step.name, explain(got))
		}
		if near := got.Nearness(); near.Status != evaluate.True {
			t.Errorf("%s: aligned %s (%s)", step.name, near.Status, near.Message)
		}
	}
	// Nobody else's look costs a question.
	before := asked
	other := n.NewPod("other")
	without := n.Give(other, verifytest.Ours(), nil, []int{1}, cpuset.New())
	n.Write(t, other)
	if got := verify.Check(t.Context(), n.Machine, r, []expect.Pod{without.Expect()}, false)[0]; got.Status != evaluate.True || asked != before {
		t.Errorf("physical functions were asked %d times for a pod without virtual ones: %s", asked-before, explain(got))
	}
}
