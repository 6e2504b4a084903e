// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package slicecodec

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/internal/model"
)

// attributesOf makes attributes of Go values.
func attributesOf(values map[string]any) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	all := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
	for name, v := range values {
		var a resourceapi.DeviceAttribute
		switch v := v.(type) {
		case string:
			a.StringValue = &v
		case int:
			a.IntValue = ptr.To(int64(v))
		case bool:
			a.BoolValue = &v
		case []int64:
			a.IntValues = v
		case []string:
			a.StringValues = v
		}
		all[resourceapi.QualifiedName(name)] = a
	}
	return all
}

func TestRead(t *testing.T) {
	at := func(s string) *model.PCIAddress {
		a, err := model.ParsePCIAddress(s)
		if err != nil {
			t.Fatal(err)
		}
		return &a
	}
	const sriov = driverSRIOV + "/"
	for name, tt := range map[string]struct {
		driver, device string
		attributes     map[string]any
		want           Reading
	}{
		"DRANET": {"dra.net", "pci-0000-91-00-0", map[string]any{
			"dra.net/pciAddress": "0000:91:00.0", "dra.net/numaNode": 0, "dra.net/rdma": true, AttrPCIeRoot: "pci0000:8c",
		}, Reading{Kind: KindNIC, PCI: at("0000:91:00.0"), Root: ptr.To("pci0000:8c"), NUMANode: ptr.To(0), RDMA: true}},
		"DRANET, its attributes gone": {"dra.net", "pci-0000-91-00-0", nil, Reading{Kind: KindNIC, PCI: at("0000:91:00.0")}},
		"a port of a function":        {"dra.net", "pci-0000-91-00-0-p1", nil, Reading{Kind: KindNIC, PCI: at("0000:91:00.0")}},
		"no address in the name":      {"dra.net", "pci-91-00-0", nil, Reading{Kind: KindNIC}},
		"near nodes as a list": {"dra.net", "x", map[string]any{AttrNUMANode: []int64{1, 0}, "dra.net/numaNode": 5},
			Reading{Kind: KindNIC, NUMANode: ptr.To(1)}},
		"NVIDIA 0.4": {"gpu.nvidia.com", "gpu-7", map[string]any{"type": "gpu", AttrPCIBusID: "0000:cc:00.0", AttrPCIeRoot: "pci0000:c8"},
			Reading{Kind: KindGPU, PCI: at("0000:cc:00.0"), Root: ptr.To("pci0000:c8")}},
		"NVIDIA 25.8": {"gpu.nvidia.com", "gpu-0", map[string]any{"type": "gpu", "pcieBusID": "0000:0F:00.0"},
			Reading{Kind: KindGPU, PCI: at("0000:0f:00.0")}},
		"NVIDIA, a slice": {"gpu.nvidia.com", "gpu-0-mig-19-0-1", map[string]any{"type": "mig", "profile": "1g.18gb", "parentUUID": "GPU-1", AttrPCIBusID: "0000:cc:00.0"},
			Reading{Kind: KindGPU, Part: true, PCI: at("0000:cc:00.0"), MIG: &MIG{Profile: "1g.18gb", ParentUUID: "GPU-1"}}},
		"AMD": {"gpu.amd.com", "gpu-1-128", map[string]any{"type": "amdgpu", "numaNode": 1, AttrPCIBusID: "0000:05:00.0"},
			Reading{Kind: KindGPU, PCI: at("0000:05:00.0"), NUMANode: ptr.To(1)}},
		"AMD, a partition before it is made": {"gpu.amd.com", "gpu-0-cpx-nps4", map[string]any{"gpu.amd.com/type": "amdgpu-partition", "gpu.amd.com/pciAddr": "0000:05:00.0", "numaNode": -1},
			Reading{Kind: KindGPU, Part: true, PCI: at("0000:05:00.0")}},
		"Intel": {"gpu.intel.com", "0000-b3-00-0-0x56c0", map[string]any{"pciAddress": "0000:b3:00.0", "pciRoot": "b2", "driver": "xe"},
			Reading{Kind: KindGPU, PCI: at("0000:b3:00.0")}},
		"Intel's Gaudi": {"gaudi.intel.com", "x", map[string]any{"pciRoot": "pci0000:b2"}, Reading{Kind: KindAccelerator, Root: ptr.To("pci0000:b2")}},
		"SR-IOV": {driverSRIOV, "0000-06-00-2", map[string]any{
			sriov + "pciAddress": "0000:06:00.2", sriov + "rdmaCapable": true, "dra.net/numaNode": 1, AttrPCIeRoot: "pci0000:00",
		}, Reading{Kind: KindNIC, PCI: at("0000:06:00.2"), Root: ptr.To("pci0000:00"), NUMANode: ptr.To(1), RDMA: true}},
		"SR-IOV that knows nothing": {driverSRIOV, "x", map[string]any{sriov + "rdmaCapable": false, "dra.net/numaNode": -1, AttrPCIeRoot: ""},
			Reading{Kind: KindNIC}},
		"an interface of anybody":  {"fabric.example.com", "p", map[string]any{"ifName": "ens1"}, Reading{Kind: KindNIC}},
		"RDMA of anybody":          {"fabric.example.com", "p", map[string]any{"rdma": true}, Reading{Kind: KindNIC, RDMA: true}},
		"nobody says what it is":   {"qat.intel.com", "q", map[string]any{AttrPCIBusID: "0000:6b:00.1"}, Reading{PCI: at("0000:6b:00.1")}},
		"another one's word: type": {"gpu.example.com", "g", map[string]any{"type": "small"}, Reading{Kind: KindGPU}},
		"CPUs":                     {"dra.cpu", "cpudevnuma000", map[string]any{AttrSocket: 0, "dra.net/numaNode": 0}, Reading{Kind: KindCPU, NUMANode: ptr.To(0), Socket: ptr.To(0)}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Read(tt.driver, tt.device, attributesOf(tt.attributes))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Releases of NVIDIA's driver are told apart by the NUMA node alone.
func TestReleasesOfNVIDIA(t *testing.T) {
	for release, withNode := range map[string]bool{"0.4.0": false, "0.4.1": false, "0.5.0": true} {
		text, err := os.ReadFile("testdata/nvidia/nvidia-" + release + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		var slice resourceapi.ResourceSlice
		if err := yaml.UnmarshalStrict(text, &slice); err != nil {
			t.Fatal(release, err)
		}
		for _, d := range slice.Spec.Devices {
			read, err := Read(slice.Spec.Driver, d.Name, d.Attributes)
			if err != nil || read.Kind != KindGPU || read.Part || read.PCI == nil || read.Root == nil || (read.NUMANode != nil) != withNode {
				t.Errorf("%s of %s: %+v, %v", d.Name, release, read, err)
			}
		}
		n, err := Decode([]resourceapi.ResourceSlice{slice})
		if err != nil || len(n.Machine.GPUs) != len(slice.Spec.Devices) || n.Machine.GPUs[0].ProductName != "NVIDIA H200" {
			t.Errorf("%s: %+v, %v", release, n.Machine.GPUs, err)
		}
	}
}

// What is written wrongly is absent, and said with its name and value.
func TestReadRefusals(t *testing.T) {
	for want, attributes := range map[string]map[string]any{
		`attribute resource.kubernetes.io/pciBusID: parse PCI address "nowhere"`: {AttrPCIBusID: "nowhere"},
		"attribute resource.kubernetes.io/numaNode: not a number":                {AttrNUMANode: "0"},
		"attribute numaNode: 65536 is no NUMA node":                              {"numaNode": 1 << 16},
		"attribute resource.kubernetes.io/pcieRoot: not a list of strings":       {AttrPCIeRoot: 8},
		"attribute rdmaCapable: not a boolean":                                   {"rdmaCapable": "yes"},
	} {
		got, err := Read("gpu.example.com", "g", attributesOf(attributes))
		if err == nil || !strings.HasPrefix(err.Error(), want) || got != (Reading{Kind: KindGPU}) {
			t.Errorf("%v: %+v and error %v, want %s", attributes, got, err, want)
		}
	}
}

func TestDescribes(t *testing.T) {
	for name, tt := range map[string]struct {
		driver     string
		attributes map[string]any
		want       bool
	}{
		"ours":                     {"dra.cpu", nil, true},
		"a place":                  {"qat.intel.com", map[string]any{AttrPCIBusID: "0000:6b:00.1"}, true},
		"an interface":             {"fabric.example.com", map[string]any{"ifName": "ens1"}, true},
		"channels between domains": {"compute-domain.nvidia.com", map[string]any{"type": "channel", "id": 0}, false},
	} {
		s := resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{
			Driver: tt.driver, Devices: []resourceapi.Device{{Name: "x", Attributes: attributesOf(tt.attributes)}},
		}}
		if got := Describes(&s); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// dra-driver-cpu says -1 of an L3 cache that is not there.
func TestDecodeCPUWithoutL3(t *testing.T) {
	n, err := Decode([]resourceapi.ResourceSlice{{Spec: resourceapi.ResourceSliceSpec{Driver: DriverCPU, Devices: []resourceapi.Device{
		{Name: "cpudev000", Attributes: attributesOf(map[string]any{"dra.cpu/cpuID": 3, AttrNUMANode: 1, "dra.cpu/cacheL3ID": -1})},
	}}}})
	if err != nil || len(n.CPUGroups) != 1 || n.CPUGroups[0].L3 != nil || ptr.Deref(n.CPUGroups[0].NUMANode, -1) != 1 {
		t.Errorf("%+v, %v", n, err)
	}
}

// A negative number must not become one beyond all memory.
func TestDecodeNegativeMemory(t *testing.T) {
	for _, driver := range []string{DriverGPU, "gpu.amd.com"} {
		n, err := Decode([]resourceapi.ResourceSlice{{Spec: resourceapi.ResourceSliceSpec{Driver: driver, Devices: []resourceapi.Device{{
			Name:       "gpu-0",
			Attributes: attributesOf(map[string]any{AttrPCIBusID: "0000:11:00.0"}),
			Capacity:   map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("-1Gi")}},
		}}}}})
		if err == nil || !strings.Contains(err.Error(), "capacity memory: -1Gi is negative") || len(n.Machine.GPUs) > 0 {
			t.Errorf("%s: %+v, error %v, want it refused", driver, n.Machine.GPUs, err)
		}
	}
}

// A root that is made up for a device without one does not hide a published one of
// that name, in whichever order they come.
func TestDecodePublishedRootBesideMadeUp(t *testing.T) {
	devices := []resourceapi.Device{
		{Name: "made-up", Attributes: attributesOf(map[string]any{AttrPCIBusID: "0000:11:00.0"})},
		{Name: "published", Attributes: attributesOf(map[string]any{AttrPCIBusID: "0000:12:00.0", AttrPCIeRoot: "pci0000:11"})},
	}
	for range 2 {
		n, err := Decode([]resourceapi.ResourceSlice{{Spec: resourceapi.ResourceSliceSpec{Driver: "gpu.amd.com", Devices: devices}}})
		if err != nil || len(n.Machine.Roots) != 1 || !n.Machine.Roots[0].Published {
			t.Errorf("roots %+v, error %v, want one that is published", n.Machine.Roots, err)
		}
		slices.Reverse(devices)
	}
}
