// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package slicecodec

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
)

// AllocatableCPUs are the CPUs of a NUMA node that claims can have: online and
// not reserved.
func AllocatableCPUs(m *model.Machine, node int, reserved cpuset.CPUSet) cpuset.CPUSet {
	n := m.NUMANode(node)
	if n == nil {
		return cpuset.New()
	}
	var online []int
	for _, c := range m.CPUs {
		if c.Online && n.CPUs.Contains(c.ID) {
			online = append(online, c.ID)
		}
	}
	return cpuset.New(online...).Difference(reserved)
}

func encodeCPUGroup(m *model.Machine, node int, cpus cpuset.CPUSet) *builder {
	b := newBuilder(CPUGroupName(node))
	b.numaNode(&node)
	b.number(attrCPUNUMANode, &node)
	b.number(attrNumCPUs, ptr.To(cpus.Size()))
	shared := sharedTraits(m, cpus)
	b.number(attrSocket, shared.socket)
	b.number(attrL3, shared.l3)
	b.flag(attrSMT, shared.smt)
	if list := cpus.String(); len(list) <= resourceapi.DeviceAttributeMaxValueLength {
		b.text(attrCPUList, &list)
	}
	b.device.AllowMultipleAllocations = ptr.To(true)
	b.device.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
		CapacityCPU: cpuCapacity(int64(cpus.Size())),
	}
	return b
}

// cpuCapacity lets claims take whole CPUs, the whole group when they name no
// amount. The API wants min+step <= value, so a group of one CPU lists its only
// value instead of a range.
func cpuCapacity(n int64) resourceapi.DeviceCapacity {
	whole := resource.NewQuantity(n, resource.DecimalSI)
	policy := &resourceapi.CapacityRequestPolicy{Default: whole}
	if n == 1 {
		policy.ValidValues = []resource.Quantity{*whole}
	} else {
		one := resource.NewQuantity(1, resource.DecimalSI)
		policy.ValidRange = &resourceapi.CapacityRequestPolicyRange{Min: one, Step: one, Max: whole}
	}
	return resourceapi.DeviceCapacity{Value: *whole, RequestPolicy: policy}
}

// traits are what all CPUs of a group have in common.
type traits struct {
	socket, l3 *int
	smt        bool
}

func sharedTraits(m *model.Machine, cpus cpuset.CPUSet) traits {
	sockets, caches := map[int]bool{}, map[int]bool{}
	withL3 := 0
	var t traits
	for _, c := range m.CPUs {
		if !cpus.Contains(c.ID) {
			continue
		}
		t.smt = t.smt || c.Siblings.Size() > 1
		if c.Core != nil {
			sockets[c.Core.Package] = true
		}
		if c.L3 != nil {
			caches[*c.L3] = true
			withL3++
		}
	}
	t.socket = only(sockets)
	if withL3 == cpus.Size() {
		t.l3 = only(caches)
	}
	return t
}

// only returns the set's single member, or nil.
func only(set map[int]bool) *int {
	if len(set) != 1 {
		return nil
	}
	for v := range set {
		return &v
	}
	return nil
}
