// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"fmt"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/verify/nearest"
)

// directMachine is the machine of two NICs, of which the far one has a Data Direct function
// below the near one's root where direct is set.
func directMachine(t *testing.T, direct bool) *model.Machine {
	t.Helper()
	parts := *machine(t)
	own, of := model.PCIAddress{Bus: 0x21}, model.PCIAddress{Bus: 0x12}
	far := model.NIC{PCI: &own}
	parts.Functions = append(parts.Functions, model.PCIFunction{Address: of, Root: "pci0000:10", Class: 0x080100})
	if direct {
		far.DataDirect, far.PairedGPU = &of, &model.PCIAddress{Bus: 0x11}
	}
	parts.NICs = []model.NIC{far}
	m, err := model.New(parts)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The root of a NIC is where its driver says that it is, if its Data Direct function is
// there; the verdict says so, and where the NIC itself is.
func TestDataDirectRoots(t *testing.T) {
	const says = "far pci0000:10 (by its Data Direct function 0000:12:00.0; the NIC itself is below pci0000:20)"
	match := resourceapi.DeviceConstraint{MatchAttribute: ptr.To[resourceapi.FullyQualifiedName](slicecodec.AttrPCIeRoot), Requests: []string{"near", "far"}}
	for _, tc := range []struct {
		name               string
		direct             bool
		published, derived string
		want               Status
		says               string
	}{
		{name: "published so", direct: true, published: "pci0000:10", want: True, says: says},
		{name: "published so, and the hardware has no such function", published: "pci0000:10", want: False, says: "far pci0000:20"},
		{name: "published as another root", direct: true, published: "pci0000:30", want: False, says: "far pci0000:20"},
		{name: "published as its own", direct: true, published: "pci0000:20", want: False, says: "far pci0000:20"},
		{name: "not published", direct: true, want: False, says: "far pci0000:20"},
		{name: "derived", direct: true, published: "pci0000:20", derived: `device.attributes["plumbline.dev"].dataDirectRoot`, want: True, says: says},
		{name: "derived by index", direct: true, derived: `device.attributes[ "plumbline.dev" ]["dataDirectRoot"]`, want: True, says: says},
		{name: "derived of hardware without", derived: `device.attributes["plumbline.dev"].dataDirectRoot`, want: Unknown, says: "the kernel does not say it of"},
		{name: "derived by another expression", direct: true, derived: `"pci0000:10"`, want: True, says: "far derives it by an expression: the scheduler's to keep"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			expected, found := pod(cpuset.New(0), false, match)
			claim := &expected.Claims[0]
			if tc.published != "" {
				claim.Devices[1].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{slicecodec.AttrPCIeRoot: {StringValue: &tc.published}}
			}
			if tc.derived != "" {
				claim.Derived = map[string]map[string]string{"far": {slicecodec.AttrPCIeRoot: tc.derived}}
			}
			got := Pod(nearest.New(directMachine(t, tc.direct)), expected, found)
			if text := fmt.Sprintf("%+v", got.Findings); got.Status != tc.want || !strings.Contains(text, tc.says) {
				t.Errorf("%s, want %s with %q: %s", got.Status, tc.want, tc.says, text)
			}
		})
	}
}

// The GPU that a NIC belongs to counts as its address where the claim derives it so.
func TestDerivedGPU(t *testing.T) {
	match := resourceapi.DeviceConstraint{MatchAttribute: ptr.To[resourceapi.FullyQualifiedName](slicecodec.AttrPCIBusID), Requests: []string{"near", "far"}}
	for paired, want := range map[bool]Status{true: True, false: Unknown} {
		expected, found := pod(cpuset.New(0), false, match)
		expected.Claims[0].Derived = map[string]map[string]string{"far": {slicecodec.AttrPCIBusID: `device.attributes["plumbline.dev"].gpuPCIBusID`}}
		if got := Pod(nearest.New(directMachine(t, paired)), expected, found); got.Status != want {
			t.Errorf("paired: %t: %s, want %s: %+v", paired, got.Status, want, got.Findings)
		}
	}
}
