// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claimgen_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/claimgen"
)

// clustered has two sockets of two NUMA nodes each, with three GPUs and NICs on
// one of the two and one of each on the other.
const clustered = "../machine/testdata/facts/hgx-snc2-4numa.yaml"

// nodeOf is where the machine file says the devices are; sockets are nodes
// halved.
var nodeOf = map[string]int{
	"gpu-0": 0, "gpu-1": 0, "gpu-2": 0, "gpu-3": 1, "gpu-4": 2, "gpu-5": 2, "gpu-6": 2, "gpu-7": 3,
	"pci-0000-19-00-0": 0, "pci-0000-29-00-0": 0, "pci-0000-39-00-0": 0, "pci-0000-49-00-0": 1,
	"pci-0000-9b-00-0": 2, "pci-0000-ab-00-0": 2, "pci-0000-bb-00-0": 2, "pci-0000-cb-00-0": 3, "pci-0000-17-00-0": 0,
	"cpudevnuma000": 0, "cpudevnuma001": 1, "cpudevnuma002": 2, "cpudevnuma003": 3,
}

// places are the NUMA nodes and sockets that a claim's devices are on.
func places(t *testing.T, claim *resourceapi.ResourceClaim, unlike ...string) (nodes, sockets []int) {
	t.Helper()
	for _, r := range claim.Status.Allocation.Devices.Results {
		node, known := nodeOf[r.Device]
		if !known {
			t.Fatalf("device %s is not of this machine", r.Device)
		}
		if !slices.Contains(unlike, r.Request) {
			nodes, sockets = append(nodes, node), append(sockets, node/2)
		}
	}
	slices.Sort(nodes)
	slices.Sort(sockets)
	return slices.Compact(nodes), slices.Compact(sockets)
}

// A claim aligned by socket has devices of several NUMA nodes, and never of two
// sockets: here it is the only way to have four GPUs.
func TestSocketSpansNodes(t *testing.T) {
	four := claimgen.Options{GPUs: 4, NICs: 4, CPUs: 16, Align: claimgen.Socket}
	for _, tc := range []struct {
		name string
		o    claimgen.Options
		want int
	}{
		{"by NUMA node", claimgen.Options{GPUs: 4, NICs: 4, CPUs: 16, Align: claimgen.NUMA}, 0},
		{"by socket", four, 2},
		{"without CPUs", claimgen.Options{GPUs: 4, NICs: 4, Align: claimgen.Socket}, 2},
		{"GPUs alone", claimgen.Options{GPUs: 4, Align: claimgen.Socket}, 2},
		{"NICs and CPUs", claimgen.Options{NICs: 4, CPUs: 48, WithoutRDMA: true, Align: claimgen.Socket}, 2},
		{"more than a socket has", claimgen.Options{GPUs: 5, NICs: 5, Align: claimgen.Socket}, 0},
		{"more CPUs than a device has", claimgen.Options{CPUs: 49, Align: claimgen.Socket}, 0},
		{"half a socket", claimgen.Options{GPUs: 2, NICs: 2, CPUs: 24, Align: claimgen.Socket}, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pods := fill(t, cluster(t, clustered), tc.o)
			if len(pods) != tc.want {
				t.Fatalf("%d claims fit, want %d", len(pods), tc.want)
			}
			spans := false
			for _, pod := range pods {
				nodes, sockets := places(t, pod[0])
				if spans = spans || len(nodes) > 1; len(sockets) != 1 {
					t.Errorf("%s is on sockets %v", pod[0].Name, sockets)
				}
			}
			if tc.want > 0 && tc.o.GPUs >= 4 && !spans {
				t.Error("four GPUs of one NUMA node, which has three")
			}
		})
	}
}

// The whole machine is one claim of two parts.
func TestOnePartForEachSocket(t *testing.T) {
	pods := fill(t, cluster(t, clustered), claimgen.Options{GPUs: 8, NICs: 8, CPUs: 64, Sockets: 2, Align: claimgen.Socket})
	if len(pods) != 1 {
		t.Fatalf("%d claims fit, want 1", len(pods))
	}
	_, one := places(t, pods[0][0], "gpu-0", "nic-0", "cpu-0")
	_, other := places(t, pods[0][0], "gpu-1", "nic-1", "cpu-1")
	if len(one) != 1 || len(other) != 1 || one[0] == other[0] {
		t.Errorf("the parts are on sockets %v and %v", one, other)
	}
}

// A fallback is taken no farther than need be: a NIC of the GPU's root, else of
// its NUMA node, else of its socket, and of the other socket never; and a GPU
// that has something nearer comes before one that has not.
func TestFallbacksNearestFirst(t *testing.T) {
	near, node, socket, across := "gpu-4 pci-0000-9b-00-0 near", "gpu-4 pci-0000-ab-00-0 numa", "gpu-0 pci-0000-49-00-0 far", "gpu-3 pci-0000-cb-00-0 far"
	numaSocket := []string{claimgen.NUMA, claimgen.Socket}
	for _, tc := range []struct {
		name     string
		free     string
		fallback []string
		want     []string
	}{
		{"near before all others", "gpu-0 pci-0000-49-00-0 gpu-4 pci-0000-9b-00-0", numaSocket, []string{near, socket}},
		{"a NUMA node before a socket", "gpu-0 pci-0000-49-00-0 gpu-4 pci-0000-ab-00-0", numaSocket, []string{node, socket}},
		{"no farther than asked", "gpu-0 pci-0000-49-00-0 gpu-4 pci-0000-ab-00-0", []string{claimgen.NUMA}, []string{strings.Replace(node, "numa", "far", 1)}},
		{"a socket at once", "gpu-0 pci-0000-49-00-0", []string{claimgen.Socket}, []string{socket}},
		{"not across sockets", "gpu-3 pci-0000-cb-00-0", numaSocket, nil},
		{"anything", "gpu-3 pci-0000-cb-00-0", []string{claimgen.NUMA, claimgen.Socket, claimgen.Any}, []string{across}},
		{"all four", "gpu-4 pci-0000-9b-00-0 gpu-5 pci-0000-bb-00-0 gpu-0 pci-0000-49-00-0", []string{claimgen.NUMA, claimgen.Socket, claimgen.Any},
			[]string{near, "gpu-5 pci-0000-bb-00-0 numa", "gpu-0 pci-0000-49-00-0 socket"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := cluster(t, clustered)
			c.Claims = append(c.Claims, held(c, strings.Fields(tc.free)))
			var got []string
			for _, pod := range fill(t, c, claimgen.Options{GPUs: 1, NICs: 1, Align: claimgen.PCIe, Fallback: tc.fallback}) {
				results := pod[0].Status.Allocation.Devices.Results
				// The GPU's alternative says how near they are: its NIC may be one that
				// would have been near to another.
				_, alternative, _ := strings.Cut(results[0].Request, "/")
				got = append(got, fmt.Sprintf("%s %s %s", results[0].Device, results[1].Device, alternative))
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// held is a claim that has all GPUs and NICs but those that are free.
func held(c *allocation.Cluster, free []string) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "held"}}
	claim.Status.Allocation = &resourceapi.AllocationResult{}
	results := &claim.Status.Allocation.Devices.Results
	for _, s := range c.Slices {
		for _, d := range s.Spec.Devices {
			if !strings.HasPrefix(d.Name, "cpudev") && !slices.Contains(free, d.Name) {
				*results = append(*results, resourceapi.DeviceRequestAllocationResult{Request: "r", Driver: s.Spec.Driver, Pool: node, Device: d.Name})
			}
		}
	}
	return claim
}

// Drivers of others say no socket of their GPUs: there a claim by socket fits
// nowhere, which is what claim new says beside it, and one by NUMA node does.
func TestWithoutTheAttribute(t *testing.T) {
	c := cluster(t, clustered)
	without(c, gpuDriver, socketID)
	for align, want := range map[string]bool{claimgen.Socket: false, claimgen.NUMA: true} {
		spec, err := claimgen.Spec(claimgen.Options{GPUs: 1, NICs: 1, CPUs: 4, Align: align})
		if err != nil {
			t.Fatal(err)
		}
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}, Spec: *spec}
		results, err := c.Allocate(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, claim)
		if err != nil || (results != nil) != want {
			t.Errorf("align %s: %v, %v", align, results, err)
		}
	}
}
