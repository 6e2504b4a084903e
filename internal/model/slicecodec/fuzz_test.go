// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package slicecodec

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

// FuzzDecode reads slices that anybody may have written: whatever they say, what
// is read can be published again within the API's limits, and then reads the
// same.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`[{"spec":{"driver":"gpu.amd.com","devices":[{"name":"gpu-1-128","attributes":{"type":{"string":"amdgpu"},"numaNode":{"int":-1},"pciAddr":{"string":"0000:05:00.0"}}},{"name":"gpu-vfio-1","attributes":{"type":{"string":"vfio"},"pciAddr":{"string":"0000:05:00.0"}}}]}},{"spec":{"driver":"x.example.com","devices":[{"name":"p","attributes":{"rdma":{"bool":true},"resource.kubernetes.io/numaNode":{"ints":[1,0]}}}]}}]`))
	f.Add([]byte(`[{"spec":{"driver":"dra.cpu","devices":[{"name":"cpudevnuma000","attributes":{"plumbline.dev/cpuList":{"string":"0-4294967295"},"dra.cpu/numaNodeID":{"int":0}}}]}}]`))
	for seed := range uint64(4) {
		published := encodeAll(randomMachine(rand.New(rand.NewPCG(seed, 3))))
		for i := range published { // short texts are varied faster
			published[i].Spec.Devices = published[i].Spec.Devices[:min(2, len(published[i].Spec.Devices))]
		}
		text, err := json.Marshal(published)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var published []resourceapi.ResourceSlice
		if json.Unmarshal(text, &published) != nil {
			t.Skip("no slices")
		}
		node, _ := Decode(published)
		if node == nil {
			return
		}
		for _, driver := range Drivers() {
			for _, d := range Encode(node.Machine, driver, CPUOptions{}) {
				checkLimits(t, d)
			}
		}
		again, err := Decode(encodeAll(node.Machine))
		if err != nil {
			t.Fatalf("what was published can not be read: %v", err)
		}
		for _, driver := range []string{DriverNet, DriverGPU} {
			if diff := cmp.Diff(Encode(node.Machine, driver, CPUOptions{}), Encode(again.Machine, driver, CPUOptions{})); diff != "" {
				t.Errorf("%s, published (-) and republished (+):\n%s", driver, diff)
			}
		}
	})
}

// Devices of the vendor's driver that are not whole GPUs are skipped; a device that only
// looks like a GPU is an error.
func TestDecodeTellsGPUsFromTheirSlices(t *testing.T) {
	device := func(name, kind string) resourceapi.Device {
		return resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			attrGPUType: {StringValue: &kind}, AttrPCIBusID: {StringValue: ptr.To("0000:91:00.0")},
		}}
	}
	for name, tt := range map[string]struct {
		device      resourceapi.Device
		gpus        int
		wantFailure bool
	}{
		"whole":                 {device("gpu-0", "gpu"), 1, false},
		"slice":                 {device("gpu-0-mig-19-0-1", "mig"), 0, false},
		"passed through":        {device("gpu-vfio-0", "vfio"), 0, false},
		"slice that says whole": {device("gpu-0-mig-19-0-1", "gpu"), 0, true},
		"zeros before":          {device("gpu-007", "gpu"), 0, true},
		"sign":                  {device("gpu-+7", "gpu"), 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			node, err := Decode([]resourceapi.ResourceSlice{{
				Spec: resourceapi.ResourceSliceSpec{Driver: DriverGPU, Devices: []resourceapi.Device{tt.device}},
			}})
			if got := len(node.Machine.GPUs); got != tt.gpus || (err != nil) != tt.wantFailure {
				t.Errorf("got %d GPUs and error %v, want %d and failure %t", got, err, tt.gpus, tt.wantFailure)
			}
		})
	}
}
