// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/nodeslices"
	"plumbline.dev/plumbline/internal/topoview"
)

const testNode = "gpu-node-1"

// publishedSlices are what an agent on an A3 Ultra publishes.
func publishedSlices(t *testing.T) []runtime.Object {
	t.Helper()
	s, err := loadMachine(context.Background(), "a3-ultragpu-8g")
	if err != nil {
		t.Fatal(err)
	}
	var objects []runtime.Object
	for _, driver := range slicecodec.Drivers() {
		for _, slice := range nodeslices.Of(s.machine, driver, testNode) {
			objects = append(objects, &slice)
		}
	}
	return objects
}

func result(driver, device string) resourceapi.DeviceRequestAllocationResult {
	return resourceapi.DeviceRequestAllocationResult{Request: "r", Driver: driver, Pool: testNode, Device: device}
}

func claimOf(name string, pods []string, results ...resourceapi.DeviceRequestAllocationResult) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	c.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: results}}
	for _, pod := range pods {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod})
	}
	return c
}

// missionObjects is a node with the mission's aligned claim, and beside it
// what must not be taken for a holder.
func missionObjects(t *testing.T) []runtime.Object {
	t.Helper()
	cpus := result(slicecodec.DriverCPU, "cpudevnuma000")
	cpus.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{slicecodec.CapacityCPU: resource.MustParse("4")}
	admin := result(slicecodec.DriverGPU, "gpu-5")
	admin.AdminAccess = ptr.To(true)
	elsewhere := result(slicecodec.DriverGPU, "gpu-6")
	elsewhere.Pool = "gpu-node-2"
	aligned := claimOf("aligned-resource-claim", []string{"aligned-gpu-nic-cpu-pod"},
		result(slicecodec.DriverGPU, "gpu-0"), result(slicecodec.DriverNet, "pci-0000-91-00-0"), cpus)
	aligned.Status.Devices = []resourceapi.AllocatedDeviceStatus{{
		Driver: slicecodec.DriverCPU, Pool: testNode, Device: "cpudevnuma000",
		Data: &runtime.RawExtension{Raw: []byte(`{"cpus":"1-2,113-114","mems":"0"}`)},
	}}
	return append(publishedSlices(t),
		aligned,
		claimOf("whole-node", nil, result(slicecodec.DriverCPU, "cpudevnuma001")),
		claimOf("monitoring", []string{"dcgm"}, admin),
		claimOf("elsewhere", []string{"p"}, elsewhere),
		&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pending"}},
	)
}

// nodeTopology is what topo --node draws.
func nodeTopology(client kubernetes.Interface, node string) (*topoview.Topology, []string, error) {
	v, err := nodeSource{client: client, node: node}.load(context.Background())
	if err != nil {
		return nil, nil, err
	}
	return v.Topology(), v.Left, nil
}

func TestTopoOfANode(t *testing.T) {
	topology, left, err := nodeTopology(fake.NewClientset(missionObjects(t)...), testNode)
	if err != nil || len(left) > 0 {
		t.Fatal(err, left)
	}
	var out bytes.Buffer
	if err := topoview.Text(&out, topology, topoview.TextOptions{}); err != nil {
		t.Fatal(err)
	}
	golden(t, "topo-node.txt", out.String())
}

// Who may not list claims still sees the hardware, and reads why not more.
func TestTopoWithoutTheRightToListClaims(t *testing.T) {
	client := fake.NewClientset(publishedSlices(t)...)
	client.PrependReactor("list", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(resourceapi.Resource("resourceclaims"), "", nil)
	})
	topology, _, err := nodeTopology(client, testNode)
	if err != nil {
		t.Fatal(err)
	}
	if topology.Counts.GPUs != 8 || !strings.Contains(strings.Join(topology.Notes, "\n"), "who holds what is unknown: ") {
		t.Errorf("%d GPUs, notes %q", topology.Counts.GPUs, topology.Notes)
	}
}

func TestTopoOfANodeWithoutSlices(t *testing.T) {
	bare := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "bare"}}
	client := fake.NewClientset(append(publishedSlices(t), bare)...)
	for node, want := range map[string]string{
		"bare":   "node bare has no ResourceSlice of GPUs, NICs or CPUs: does plumbline-agent, or another driver, run there?",
		"absent": `node "absent" is not in the cluster`,
	} {
		if _, _, err := nodeTopology(client, node); err == nil || err.Error() != want {
			t.Errorf("node %s: %v, want %s", node, err, want)
		}
	}
}

// Of a pool being republished only the newest generation counts, and what is
// missing of it is said.
func TestTopoDuringRepublishing(t *testing.T) {
	objects := publishedSlices(t)
	for _, o := range objects {
		s := o.(*resourceapi.ResourceSlice)
		if s.Spec.Driver != slicecodec.DriverGPU {
			continue
		}
		newer := s.DeepCopy()
		newer.Name += "-new"
		newer.Spec.Pool.Generation++
		newer.Spec.Pool.ResourceSliceCount = 2
		newer.Spec.Devices = newer.Spec.Devices[:3]
		objects = append(objects, newer)
	}
	topology, _, err := nodeTopology(fake.NewClientset(objects...), testNode)
	if err != nil {
		t.Fatal(err)
	}
	if topology.Counts.GPUs != 3 || !strings.Contains(strings.Join(topology.Notes, "\n"), "gpu.nvidia.com is publishing pool gpu-node-1 just now: 1 slice is missing") {
		t.Errorf("%d GPUs, notes %q", topology.Counts.GPUs, topology.Notes)
	}
}
