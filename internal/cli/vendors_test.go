// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"plumbline.dev/plumbline/internal/cli/clitest"
	"plumbline.dev/plumbline/internal/topoview"
)

// vendorObjects are nodes served by the drivers of others, and who holds devices
// there: a whole GPU, a virtual function, and a GPU by its form for virtual
// machines.
func vendorObjects(t *testing.T) []runtime.Object {
	t.Helper()
	on := func(node string, results ...resourceapi.DeviceRequestAllocationResult) []resourceapi.DeviceRequestAllocationResult {
		for i := range results {
			results[i].Pool = node
		}
		return results
	}
	const sriov = "sriovnetwork.k8snetworkplumbingwg.io"
	return append(clitest.Nodes(t, "testdata/vendors"),
		claimOf("mpi", []string{"worker-0"}, on("dranet-0", result("gpu.nvidia.com", "gpu-7"), result("dra.net", "pci-0000-98-00-0"))...),
		claimOf("infer", []string{"infer-0"}, on("amd-0", result("gpu.amd.com", "gpu-1-128"), result(sriov, "0000-06-00-2"))...),
		claimOf("virtual", []string{"vm-0"}, on("amd-0", result("gpu.amd.com", "gpu-vfio-1"))...),
		claimOf("flex", []string{"video-0"}, on("intel-0", result("gpu.intel.com", "0000-b3-00-0-0x56c0"), result("fabric.example.com", "port-0"))...),
		claimOf("eval", []string{"eval-0"}, on("standard-0", result("gpu.example.com", "gpu-2"), result("dra.net", "pci-0000-92-00-0"))...),
	)
}

// Slices are read by the standard attributes, and by those that drivers have in
// their place.
func TestTopoOfOtherDrivers(t *testing.T) {
	client := fake.NewClientset(vendorObjects(t)...)
	for _, node := range []string{"dranet-0", "egx-0", "amd-0", "intel-0", "standard-0", "rootless-0"} {
		t.Run(node, func(t *testing.T) {
			topology, left, err := nodeTopology(client, node)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if err := topoview.Text(&out, topology, topoview.TextOptions{}); err != nil {
				t.Fatal(err)
			}
			for _, line := range left {
				out.WriteString("left out: " + line + "\n")
			}
			golden(t, "vendors-"+node+".txt", out.String())
		})
	}
}

// A GPU that an administrator cut is drawn with its MIG devices and who holds them; one in
// MIG mode that is not cut is in no slice.
func TestTopoOfMIGDevices(t *testing.T) {
	const node = "nvidia-mig-static"
	held := result("gpu.nvidia.com", "gpu-0-mig-3g71gb-9-4")
	held.Pool = node
	objects := append(clitest.Nodes(t, "testdata/nvidia"), claimOf("infer", []string{"infer-0"}, held))
	golden(t, "topo-mig-static.txt", drawn(t, objects, node))
	for seed := range uint64(2) {
		golden(t, "topo-mig-static.txt", drawn(t, clitest.Shuffled(objects, seed), node))
	}
}

// drawn is a node's topology, and what was left out of it.
func drawn(t *testing.T, objects []runtime.Object, node string) string {
	t.Helper()
	topology, left, err := nodeTopology(fake.NewClientset(objects...), node)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := topoview.Text(&out, topology, topoview.TextOptions{}); err != nil {
		t.Fatal(err)
	}
	return out.String() + strings.Join(left, "\n") + "\n"
}

// Ill and lost GPUs are drawn with the taints of NVIDIA's driver (device_health.go in its
// cmd/gpu-kubelet-plugin): the key has the driver's domain, an XID is the value.
func TestTopoOfIllGPUs(t *testing.T) {
	const node = "nvidia-whole"
	taints := map[string]resourceapi.DeviceTaint{
		"gpu-4": {Key: "gpu.nvidia.com/xid", Value: "79", Effect: resourceapi.DeviceTaintEffectNoSchedule},
		"gpu-7": {Key: "gpu.nvidia.com/gpu-lost", Effect: resourceapi.DeviceTaintEffectNoSchedule},
	}
	objects := clitest.Nodes(t, "testdata/nvidia")
	for _, o := range objects {
		s, ok := o.(*resourceapi.ResourceSlice)
		if !ok || *s.Spec.NodeName != node {
			continue
		}
		for i, d := range s.Spec.Devices {
			if taint, ill := taints[d.Name]; ill {
				s.Spec.Devices[i].Taints = []resourceapi.DeviceTaint{taint}
			}
		}
	}
	golden(t, "topo-ill-gpus.txt", drawn(t, objects, node))
}

func TestNodesOfOtherDrivers(t *testing.T) {
	var out, errOut bytes.Buffer
	o := nodesOptions{output: "wide"}
	if err := o.show(context.Background(), fake.NewClientset(vendorObjects(t)...), nil, &out, &errOut); err != nil {
		t.Fatal(err)
	}
	golden(t, "vendors-nodes.txt", out.String()+errOut.String())
}

// Who holds the form of a GPU that is for virtual machines holds the GPU.
func TestHolderOfAPart(t *testing.T) {
	topology, _, err := nodeTopology(fake.NewClientset(vendorObjects(t)...), "amd-0")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range topology.AllDevices() {
		if d.Name == "gpu-9-136" && strings.Join(d.Claims, "") == "" {
			t.Errorf("%+v is free, its gpu-vfio-1 is held", d)
		}
	}
}
