// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/explain"
	. "plumbline.dev/plumbline/internal/explain/explaintest"
	"plumbline.dev/plumbline/internal/explain/fixes"
	"plumbline.dev/plumbline/internal/explain/reason"
	"plumbline.dev/plumbline/internal/explain/snapshot"
)

// deriving has a request derive attributes, by pairs of name and expression.
func deriving(r resourceapi.DeviceRequest, pairs ...string) resourceapi.DeviceRequest {
	for i := 0; i < len(pairs); i += 2 {
		r.Exactly.DerivedAttributes = append(r.Exactly.DerivedAttributes,
			resourceapi.DeviceDerivedAttribute{Name: resourceapi.FullyQualifiedName(pairs[i]), Expression: pairs[i+1]})
	}
	return r
}

// causesOfDerived are claims that compare what requests derive.
func causesOfDerived() []cause {
	on := func(s *snapshot.Objects) { s.Gates.DerivedAttributes = true }
	const place, ofRoot = "derived/place", `device.attributes["resource.kubernetes.io"].pcieRoot`
	return []cause{
		{
			name: "no common derived value", seed: on,
			requests:    []resourceapi.DeviceRequest{deriving(gpus(1), place, ofRoot), deriving(nics(1), place, ofRoot+` + "-nic"`)},
			constraints: []resourceapi.DeviceConstraint{Match(place, "gpu", "nic")},
			code:        reason.NoCommonValue,
			says: []string{
				"nic wants its derived/place shared with gpu; no value has a free device for each",
				"class gpu.nvidia.com, its place derived as " + ofRoot + ";", "pci0000:8c (2)", "pci0000:8c-nic (2)", `place derived as ` + ofRoot + ` + "-nic"`,
			},
			fix: fixes.DropConstraint, fixSays: "a derivedAttributes entry for it that no constraint compares any more has to go with it",
		},
		{
			name: "a derived attribute in the place of another", seed: on,
			requests:    []resourceapi.DeviceRequest{gpus(1), deriving(nics(1), pcieRoot, `"pci0000:ff"`)},
			constraints: []resourceapi.DeviceConstraint{Match(pcieRoot, "gpu", "nic")},
			code:        reason.NoCommonValue, says: []string{"8 free: pci0000:ff (8)"}, fix: fixes.Relax,
		},
		{
			name: "derived by one request alone", seed: on,
			requests:    []resourceapi.DeviceRequest{gpus(1), deriving(nics(1), place, ofRoot)},
			constraints: []resourceapi.DeviceConstraint{Match(place, "gpu", "nic")},
			code:        reason.AttributeAbsent, says: []string{"nic derives it, and no device for gpu has it: want it among the derivedAttributes of gpu too"},
		},
		{
			name: "derived values of two types", seed: on,
			requests:    []resourceapi.DeviceRequest{deriving(gpus(1), place, "1"), deriving(nics(1), place, `"1"`)},
			constraints: []resourceapi.DeviceConstraint{Match(place, "gpu", "nic")},
			code:        reason.AttributeTypes, says: []string{"for nic it is of type string"},
		},
		{
			name: "derived from what a device lacks",
			seed: func(s *snapshot.Objects) {
				on(s)
				devices(s, "dra.net", func(_ int, d *resourceapi.Device) {
					if d.Name != A3NICs[3] {
						d.Attributes["plumbline.dev/gpuPCIBusID"] = Text("0000:8f:00.0")
					}
				})
				devices(s, "gpu.nvidia.com", func(_ int, d *resourceapi.Device) {
					d.Attributes["resource.kubernetes.io/pciBusID"] = Text("0000:8f:00.0")
				})
			},
			requests: []resourceapi.DeviceRequest{
				deriving(nics(4), "resource.kubernetes.io/pciBusID", `device.attributes["plumbline.dev"].gpuPCIBusID`), gpus(1),
			},
			constraints: []resourceapi.DeviceConstraint{Match("resource.kubernetes.io/pciBusID", "gpu", "nic")},
			code:        reason.DerivedAborts,
			says: []string{
				"derived attribute resource.kubernetes.io/pciBusID of nic cannot be evaluated for dra.net/", "which ends the scheduling of the pod on every node: no such key: gpuPCIBusID",
				"pciBusID not to be derived (1)",
			},
			fix: fixes.GuardDerived, fixSays: `"gpuPCIBusID" in device.attributes["plumbline.dev"]`,
		},
		{
			name: "a derived attribute that does not compile", seed: on,
			requests: []resourceapi.DeviceRequest{deriving(nics(1), place, "device.")}, constraints: []resourceapi.DeviceConstraint{Match(place, "nic")},
			code: reason.DerivedAborts, says: []string{"it does not compile"},
		},
		{
			name: "a name misspelt in a derived attribute", seed: on,
			requests: []resourceapi.DeviceRequest{
				deriving(gpus(1), place, ofRoot), deriving(nics(1), place, `device.attributes["resource.kubernetes.io"].pcieRot`),
			},
			constraints: []resourceapi.DeviceConstraint{Match(place, "gpu", "nic")},
			code:        reason.DerivedAborts, fix: fixes.CorrectName,
			fixSays: "resource.kubernetes.io/pcieRoot instead of resource.kubernetes.io/pcieRot in derived attribute derived/place of nic",
		},
	}
}

// What an API server keeps shows its gate, what it has dropped shows in what was applied,
// and what was said of gates counts more.
func TestGatesOfKeptFields(t *testing.T) {
	c := Claim("pair", nil, deriving(Request("nic", "dranet.net", 1), "derived/place", "1"))
	c.UID = ""
	if explain.Kept([]*resourceapi.ResourceClaim{c}, nil) {
		t.Error("a claim that no API server has written shows that one keeps its fields")
	}
	c.UID = "1"
	if !explain.Kept([]*resourceapi.ResourceClaim{c}, nil) {
		t.Error("a claim of an API server does not show that its fields are kept")
	}
	for said, want := range map[string]bool{"": true, "DRAListTypeAttributes=true": true, "DRADerivedAttributes=false": false} {
		if gates, note := explain.GatesOfKept(allocation.Gates{}, said); gates.DerivedAttributes != want || (note != "") != want {
			t.Errorf("--feature-gates %q: on: %t, %q", said, gates.DerivedAttributes, note)
		}
	}
	c.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: `{"spec":{"devices":{"requests":[{"exactly":{"derivedAttributes":[]}}]}}}`}
	if notes := explain.OfClaim(c).Notes; len(notes) > 0 {
		t.Errorf("a claim with its derived attributes: %q", notes)
	}
	c.Spec.Devices.Requests[0].Exactly.DerivedAttributes = nil
	if notes := explain.OfClaim(c).Notes; len(notes) != 1 || !strings.Contains(notes[0], "the API server has dropped them: feature gate DRADerivedAttributes is off there") {
		t.Errorf("a claim without what was applied: %q", notes)
	}
}
