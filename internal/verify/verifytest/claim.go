// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verifytest

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/verify/expect"
)

// AllocatedPod is a pod with its claim, as the API server has them.
type AllocatedPod struct {
	Pod    *corev1.Pod
	Claim  *resourceapi.ResourceClaim
	Slices []resourceapi.ResourceSlice
}

// Expect is what verify makes of it.
func (p AllocatedPod) Expect() expect.Pod {
	return expect.PodOf(p.Pod, map[string]*resourceapi.ResourceClaim{p.Claim.Name: p.Claim}, expect.PublishedIn(p.Slices))
}

// Names are how drivers call things and what they publish.
type Names struct {
	// TellsRDMA says whether the driver tells of each RDMA device that a pod has.
	TellsRDMA bool
	NIC       func(model.NIC) string
	GPU       func(model.GPU) string
	Slices    func(n *Node) []resourceapi.ResourceSlice
}

// Ours are plumbline's drivers.
func Ours() Names {
	return Names{TellsRDMA: true, NIC: slicecodec.NICName, GPU: slicecodec.GPUName, Slices: func(n *Node) []resourceapi.ResourceSlice {
		var list []resourceapi.ResourceSlice
		for _, driver := range slicecodec.Drivers() {
			list = append(list, SliceOf(n, driver, slicecodec.Encode(n.Machine, driver, slicecodec.CPUOptions{})))
		}
		return list
	}}
}

// SliceOf is one slice of the node's pool.
func SliceOf(n *Node, driver string, devices []resourceapi.Device) resourceapi.ResourceSlice {
	return resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name + "-" + driver},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: ptr.To(n.Name), Pool: resourceapi.ResourcePool{Name: n.Name, Generation: 1, ResourceSliceCount: 1}, Devices: devices,
		},
	}
}

// Give makes the pod hold GPUs and NICs of the machine's lists and CPUs of one
// NUMA node, and returns the claim that says so, with constraints: GPU i and NIC
// i below one root where they are, everything on one NUMA node where it is.
func (n *Node) Give(p *Pod, names Names, gpus, nics []int, cpus cpuset.CPUSet) AllocatedPod {
	b := newBuilder(n, p, names)
	for _, i := range gpus {
		b.gpu(i)
	}
	for k, i := range nics {
		b.nic(k, i)
	}
	if !cpus.IsEmpty() {
		b.cpus(cpus)
	}
	b.constrain(gpus, nics)
	return AllocatedPod{Pod: b.pod(), Claim: b.claim, Slices: names.Slices(n)}
}

type builder struct {
	n     *Node
	p     *Pod
	names Names
	claim *resourceapi.ResourceClaim
	nodes []int
	// unplaced is true when something has no NUMA node.
	unplaced bool
}

func newBuilder(n *Node, p *Pod, names Names) *builder {
	return &builder{n: n, p: p, names: names, claim: &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: types.UID("claim-" + p.UID)},
		Status: resourceapi.ResourceClaimStatus{
			Allocation:  &resourceapi.AllocationResult{},
			ReservedFor: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: p.Name, UID: types.UID(p.UID)}},
		},
	}}
}

func (b *builder) result(request, driver, device string) *resourceapi.DeviceRequestAllocationResult {
	devices := &b.claim.Status.Allocation.Devices
	devices.Results = append(devices.Results, resourceapi.DeviceRequestAllocationResult{Request: request, Driver: driver, Pool: b.n.Name, Device: device})
	b.claim.Spec.Devices.Requests = append(b.claim.Spec.Devices.Requests, resourceapi.DeviceRequest{Name: request})
	return &devices.Results[len(devices.Results)-1]
}

func (b *builder) on(node *int) {
	if node == nil {
		b.unplaced = true
		return
	}
	b.nodes = append(b.nodes, *node)
}

func (b *builder) gpu(i int) {
	g := b.n.Machine.GPUs[i]
	b.result(fmt.Sprintf("gpu-%d", i), slicecodec.DriverGPU, b.names.GPU(g))
	b.p.Files[fmt.Sprintf("/dev/nvidia%d", i)] = b.n.GPUNumber(i)
	b.p.Files["/dev/nvidiactl"] = "195:255"
	b.on(b.n.Machine.Function(g.PCI).NUMANode)
}

func (b *builder) nic(k, i int) {
	nic := b.n.Machine.NICs[i]
	name := fmt.Sprintf("net%d", k)
	device := b.names.NIC(nic)
	b.result(fmt.Sprintf("nic-%d", i), slicecodec.DriverNet, device)
	b.p.NICs[name] = i
	b.p.Files[fmt.Sprintf("/dev/infiniband/uverbs%d", i)] = b.n.RDMANumber(i)
	b.p.Files["/dev/infiniband/rdma_cm"] = CMNumber
	entry := resourceapi.AllocatedDeviceStatus{
		Driver: slicecodec.DriverNet, Pool: b.n.Name, Device: device,
		NetworkData: &resourceapi.NetworkDeviceData{InterfaceName: name, HardwareAddress: "02:00:00:00:00:01", IPs: []string{Address + "/24"}},
	}
	if b.names.TellsRDMA && nic.RDMA != nil {
		entry.Conditions = []metav1.Condition{{Type: "RDMALinkReady", Status: metav1.ConditionTrue}}
	}
	b.claim.Status.Devices = append(b.claim.Status.Devices, entry)
	b.on(b.n.Machine.Function(*nic.PCI).NUMANode)
}

func (b *builder) cpus(cpus cpuset.CPUSet) {
	node := -1
	for _, m := range b.n.Machine.NUMANodes {
		if cpus.IsSubsetOf(m.CPUs) {
			node = m.ID
		}
	}
	r := b.result("cpu-req", slicecodec.DriverCPU, slicecodec.CPUGroupName(node))
	r.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{slicecodec.CapacityCPU: *resource.NewQuantity(int64(cpus.Size()), resource.DecimalSI)}
	b.p.Pin(cpus, cpuset.New(node))
	b.p.EnvCPUs[string(b.claim.UID)] = cpus
	b.on(&node)
}

func (b *builder) constrain(gpus, nics []int) {
	add := func(attribute string, requests ...string) {
		b.claim.Spec.Devices.Constraints = append(b.claim.Spec.Devices.Constraints, resourceapi.DeviceConstraint{
			Requests: requests, MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(attribute)),
		})
	}
	for k := range min(len(gpus), len(nics)) {
		g, nic := b.n.Machine.GPUs[gpus[k]], b.n.Machine.NICs[nics[k]]
		if b.n.Machine.RootOf(g.PCI).Name == b.n.Machine.RootOf(*nic.PCI).Name {
			add(slicecodec.AttrPCIeRoot, fmt.Sprintf("gpu-%d", gpus[k]), fmt.Sprintf("nic-%d", nics[k]))
		}
	}
	slices.Sort(b.nodes)
	if !b.unplaced && len(slices.Compact(b.nodes)) == 1 {
		add(slicecodec.AttrLegacyNUMANode)
	}
}

func (b *builder) pod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.p.Namespace, Name: b.p.Name, UID: types.UID(b.p.UID)},
		Spec: corev1.PodSpec{
			NodeName:       b.n.Name,
			ResourceClaims: []corev1.PodResourceClaim{{Name: "devices", ResourceClaimName: ptr.To(b.claim.Name)}},
			Containers:     []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "devices"}}}}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning,
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "main", ContainerID: "containerd://" + b.p.ContainerID, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			}},
		},
	}
}
