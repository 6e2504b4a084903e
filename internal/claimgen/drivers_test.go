// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claimgen_test

import (
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/claimgen"
)

const (
	gpuDriver    = "gpu.nvidia.com"
	standardNode = "resource.kubernetes.io/numaNode"
	legacyNode   = "dra.net/numaNode"
	socketID     = "dra.cpu/socketID"
)

// without takes attributes from the devices of a driver.
func without(c *allocation.Cluster, driver string, names ...resourceapi.QualifiedName) {
	for _, s := range c.Slices {
		if s.Spec.Driver != driver {
			continue
		}
		for i := range s.Spec.Devices {
			for _, name := range names {
				delete(s.Spec.Devices[i].Attributes, name)
			}
		}
	}
}

// oldGPUs are as NVIDIA's driver publishes them before v0.5.0: with an address and a
// PCIe root, and without a NUMA node.
func oldGPUs(c *allocation.Cluster) { without(c, gpuDriver, standardNode, legacyNode, socketID) }

// tutorial is what the drivers of GKE's tutorial publish: GPUs without a NUMA node,
// and NICs and CPUs with that of the older name alone.
func tutorial(c *allocation.Cluster) {
	oldGPUs(c)
	without(c, "dra.net", standardNode, socketID)
	without(c, "dra.cpu", standardNode)
}

// vendor makes the GPUs those of another vendor's driver, which tell their PCIe
// root and address by the standard names, and their NUMA node by one of their own.
func vendor(driver string) func(*allocation.Cluster) {
	return func(c *allocation.Cluster) {
		oldGPUs(c)
		for _, s := range c.Slices {
			if s.Spec.Driver == gpuDriver {
				s.Spec.Driver = driver
			}
		}
		c.Classes[driver] = &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: resourceapi.DeviceClassSpec{
			Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "` + driver + `"`}}},
		}}
	}
}

// A claim for GPUs, NICs and CPUs fits whatever says where the GPUs are: they and
// the NICs share a root, and the CPUs the NUMA node of the NICs.
func TestDrivers(t *testing.T) {
	asIs := func(*allocation.Cluster) {}
	pair, four := claimgen.Options{GPUs: 1, NICs: 1, CPUs: 4, Align: claimgen.PCIe}, claimgen.Options{GPUs: 4, NICs: 4, CPUs: 32, Align: claimgen.PCIe}
	whole := claimgen.Options{GPUs: 8, NICs: 8, CPUs: 64, NUMANodes: 2, Align: claimgen.PCIe}
	of := func(o claimgen.Options, change func(*claimgen.Options)) claimgen.Options {
		change(&o)
		return o
	}
	amd := func(o *claimgen.Options) { o.GPUClass = "gpu.amd.com" }
	for _, tc := range []struct {
		name   string
		change func(*allocation.Cluster)
		o      claimgen.Options
		want   int
	}{
		{"pairs", asIs, pair, 8},
		{"pairs, old GPUs", oldGPUs, pair, 8},
		{"pairs, the tutorial's drivers", tutorial, pair, 8},
		{"fours, old GPUs", oldGPUs, four, 2},
		{"fours, the tutorial's drivers", tutorial, four, 2},
		{"all, old GPUs", oldGPUs, whole, 1},
		{"all, the tutorial's drivers", tutorial, whole, 1},
		{"NICs and CPUs, the tutorial's drivers", tutorial, claimgen.Options{NICs: 4, CPUs: 16, Align: claimgen.NUMA}, 2},
		{"pairs by NUMA node", asIs, of(pair, func(o *claimgen.Options) { o.Align = claimgen.NUMA }), 8},
		// No constraint can hold a GPU to a node that it does not tell.
		{"pairs by NUMA node, old GPUs", oldGPUs, of(pair, func(o *claimgen.Options) { o.Align = claimgen.NUMA }), 0},
		{"GPUs and CPUs, old GPUs", oldGPUs, claimgen.Options{GPUs: 1, CPUs: 4, Align: claimgen.PCIe}, 0},
		{"AMD's", vendor("gpu.amd.com"), of(pair, amd), 8},
		{"AMD's, fours", vendor("gpu.amd.com"), of(four, amd), 2},
		{"AMD's, NICs from anywhere", vendor("gpu.amd.com"), of(pair, func(o *claimgen.Options) { amd(o); o.Fallback = []string{claimgen.Any} }), 8},
		{"AMD's, alone", vendor("gpu.amd.com"), claimgen.Options{GPUs: 8, GPUClass: "gpu.amd.com", Align: claimgen.PCIe}, 1},
		{"AMD's product", vendor("gpu.amd.com"), of(pair, func(o *claimgen.Options) { amd(o); o.GPUProduct = "NVIDIA H200" }), 8},
		{"Intel's", vendor("gpu.intel.com"), of(pair, func(o *claimgen.Options) { o.GPUClass = "gpu.intel.com" }), 8},
		{"somebody's", vendor("gpus.example.com"), of(whole, func(o *claimgen.Options) { o.GPUClass = "gpus.example.com" }), 1},
		{"NVIDIA's where there are none", vendor("gpu.amd.com"), pair, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := cluster(t, "a3-ultragpu-8g")
			tc.change(c)
			pods := fill(t, c, tc.o)
			if len(pods) != tc.want {
				t.Fatalf("%d claims fit, want %d", len(pods), tc.want)
			}
			for _, pod := range pods {
				aligned(t, c, pod[0], tc.o)
			}
		})
	}
}

// aligned checks what devices an aligned claim has, by what a3-ultragpu-8g has: of
// each NUMA node four GPUs and NICs, the PCIe roots of the first below those of the
// second.
func aligned(t *testing.T, c *allocation.Cluster, claim *resourceapi.ResourceClaim, o claimgen.Options) {
	t.Helper()
	if o.NICs == 0 || o.CPUs == 0 || len(o.Fallback) > 0 {
		return
	}
	const between = "pci0000:a0"
	var nodes []string
	for _, r := range claim.Status.Allocation.Devices.Results {
		for _, s := range c.Slices {
			i := slices.IndexFunc(s.Spec.Devices, func(d resourceapi.Device) bool { return s.Spec.Driver == r.Driver && d.Name == r.Device })
			if i < 0 {
				continue
			}
			node := "0"
			if root := s.Spec.Devices[i].Attributes["resource.kubernetes.io/pcieRoot"].StringValue; root != nil && *root > between || strings.HasSuffix(r.Device, "001") {
				node = "1"
			}
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	parts := max(1, o.NUMANodes)
	if n := len(slices.Compact(slices.Clone(nodes))); n != parts || len(nodes) != o.GPUs+o.NICs+parts {
		t.Errorf("%s has devices of NUMA nodes %v, want %d nodes", claim.Name, nodes, parts)
	}
}

// A variant says by its flags what it changes, and is a claim that can be written.
func TestVariants(t *testing.T) {
	for name, tc := range map[string]struct {
		o    claimgen.Options
		want []string
	}{
		"a pair":           {claimgen.Options{GPUs: 1, NICs: 1, CPUs: 4, Align: claimgen.PCIe}, []string{"--fallback numa", "--align numa", "--fallback any", "--any-nic", "--cpus 2"}},
		"two pairs":        {claimgen.Options{GPUs: 2, NICs: 2, Align: claimgen.PCIe}, []string{"--numa-nodes 2", "--fallback numa", "--fallback numa --numa-nodes 2"}},
		"parts":            {claimgen.Options{GPUs: 4, NICs: 4, NUMANodes: 2, Align: claimgen.PCIe}, []string{"--numa-nodes 1", "--numa-nodes 4", "--fallback numa --numa-nodes 1", "--fallback numa"}},
		"sockets":          {claimgen.Options{GPUs: 2, Align: claimgen.Socket}, []string{"--sockets 2"}},
		"CPUs":             {claimgen.Options{CPUs: 3, Align: claimgen.PCIe}, nil},
		"of another class": {claimgen.Options{GPUs: 1, NICs: 1, GPUClass: "gpu.amd.com", Align: claimgen.PCIe}, []string{"--fallback any", "--any-nic"}},
	} {
		t.Run(name, func(t *testing.T) {
			at := 0
			seen := map[string]bool{}
			for _, v := range tc.o.Variants() {
				if seen[v.Flags] || v.Flags == "" {
					t.Errorf("%q twice, or no change", v.Flags)
				}
				seen[v.Flags] = true
				if _, err := claimgen.Spec(v.Options); err != nil {
					t.Errorf("%s: %v", v.Flags, err)
				}
				if at < len(tc.want) && v.Flags == tc.want[at] {
					at++
				}
			}
			if at < len(tc.want) {
				t.Errorf("%q is not among %v in the order of %q", tc.want[at], seen, tc.want)
			}
		})
	}
}
