// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verify_test

import (
	"maps"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/verify/evaluate"
	"plumbline.dev/plumbline/internal/verify/verifytest"
)

// strange makes the GPUs those of a driver that nobody knows, with the standard
// attributes alone, and without some of them.
func strange(p *verifytest.AllocatedPod, without ...resourceapi.QualifiedName) {
	const driver = "gpu.example.com"
	for i := range p.Claim.Status.Allocation.Devices.Results {
		if r := &p.Claim.Status.Allocation.Devices.Results[i]; r.Driver == slicecodec.DriverGPU {
			r.Driver = driver
		}
	}
	for i := range p.Slices {
		s := &p.Slices[i]
		if s.Spec.Driver != slicecodec.DriverGPU {
			continue
		}
		s.Spec.Driver = driver
		for k := range s.Spec.Devices {
			d := &s.Spec.Devices[k]
			d.Capacity = nil
			maps.DeleteFunc(d.Attributes, func(name resourceapi.QualifiedName, _ resourceapi.DeviceAttribute) bool {
				return name != slicecodec.AttrPCIBusID && name != slicecodec.AttrPCIeRoot && name != slicecodec.AttrNUMANode
			})
			for _, name := range without {
				delete(d.Attributes, name)
			}
		}
	}
}

// Of a GPU the address has to be published; where it is, the kernel says the rest.
func TestStandardAttributes(t *testing.T) {
	for name, tc := range map[string]struct {
		without []resourceapi.QualifiedName
		want    evaluate.Status
	}{
		"all of them":    {nil, evaluate.True},
		"no root":        {[]resourceapi.QualifiedName{slicecodec.AttrPCIeRoot}, evaluate.True},
		"no NUMA node":   {[]resourceapi.QualifiedName{slicecodec.AttrNUMANode}, evaluate.True},
		"nor an address": {[]resourceapi.QualifiedName{slicecodec.AttrPCIBusID}, evaluate.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			n, p, allocated := beside(t)
			strange(&allocated, tc.without...)
			got := look(t, n, n.Reader(t), p, allocated.Expect())
			if got.Status != tc.want {
				t.Errorf("%s\nwant %s", explain(got), tc.want)
			}
		})
	}
}
