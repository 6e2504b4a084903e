// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package slicecodec

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
)

func encodeCPUs(m *model.Machine, d CPUDevice, o CPUOptions) *builder {
	b := newBuilder(d.Name)
	b.numaNode(d.NUMANode)
	b.number(AttrCPUNUMANode, d.NUMANode)
	b.number(AttrSocket, d.Socket)
	shared := sharedTraits(m, d.CPUs)
	b.number(AttrL3, shared.l3)
	b.flag(attrSMT, shared.smt)
	if d.CPU != nil {
		b.number(AttrCPUID, &d.CPU.ID)
		if d.CPU.Core != nil {
			b.number(attrCore, &d.CPU.Core.Core)
		}
		b.text(attrCoreType, ptr.To(string(d.CPU.CoreType())))
	} else {
		b.number(AttrNumCPUs, ptr.To(d.CPUs.Size()))
		b.cpus(AttrCPUList, d.CPUs)
		b.cpus(attrReserved, reservedBeside(m, d, o))
		b.device.AllowMultipleAllocations = ptr.To(true)
		b.device.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{CapacityCPU: cpuCapacity(int64(d.CPUs.Size()))}
		for name, c := range hugepageCapacities(m, d.Nodes) {
			b.device.Capacity[name] = c
		}
	}
	if o.PCIeRoots {
		b.pcieRoots(rootsNear(m, d))
	}
	return b
}

// cpus sets a list of CPUs, unless it is too long: a truncated one would be wrong.
func (b *builder) cpus(name string, cpus cpuset.CPUSet) {
	if list := cpus.String(); len(list) <= resourceapi.DeviceAttributeMaxValueLength {
		b.text(name, &list)
	}
}

// reservedBeside are the online CPUs of the device's NUMA nodes that are reserved.
func reservedBeside(m *model.Machine, d CPUDevice, o CPUOptions) cpuset.CPUSet {
	reserved := ReservedCPUs(m, o)
	var beside []int
	for _, c := range m.CPUs {
		if c.Online && reserved.Contains(c.ID) && c.NUMANode != nil && slices.Contains(d.Nodes, *c.NUMANode) {
			beside = append(beside, c.ID)
		}
	}
	return cpuset.New(beside...)
}

// cpuCapacity lets claims take whole CPUs, the whole group when they name no
// amount. The API wants min+step <= value, so a group of one CPU lists its only
// value instead of a range.
func cpuCapacity(n int64) resourceapi.DeviceCapacity { return countable(n, n) }

// countable lets claims take one or more of n, and some number of them when they name
// none.
func countable(n, unnamed int64) resourceapi.DeviceCapacity {
	whole := resource.NewQuantity(n, resource.DecimalSI)
	policy := &resourceapi.CapacityRequestPolicy{Default: resource.NewQuantity(unnamed, resource.DecimalSI)}
	if n == 1 {
		policy.ValidValues = []resource.Quantity{*whole}
	} else {
		one := resource.NewQuantity(1, resource.DecimalSI)
		policy.ValidRange = &resourceapi.CapacityRequestPolicyRange{Min: one, Step: one, Max: whole}
	}
	return resourceapi.DeviceCapacity{Value: *whole, RequestPolicy: policy}
}

// HugepageCapacities are the capacities that huge pages are taken from, by the
// size of a page in bytes.
func HugepageCapacities() map[string]int64 {
	return map[string]int64{CapacityHugepages2Mi: 2 << 20, CapacityHugepages1Gi: 1 << 30}
}

// hugepageCapacities lets claims take whole pages, none when they name no amount.
func hugepageCapacities(m *model.Machine, nodes []int) map[resourceapi.QualifiedName]resourceapi.DeviceCapacity {
	capacities := map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{}
	for name, size := range HugepageCapacities() {
		total := HugepagesOf(m, nodes, size)
		if total == 0 {
			continue
		}
		value := resource.NewQuantity(total, resource.BinarySI)
		none := resource.NewQuantity(0, resource.BinarySI)
		capacities[resourceapi.QualifiedName(name)] = resourceapi.DeviceCapacity{Value: *value, RequestPolicy: &resourceapi.CapacityRequestPolicy{
			Default:    none,
			ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: none, Step: resource.NewQuantity(size, resource.BinarySI), Max: value},
		}}
	}
	return capacities
}

// HugepagesOf is how many bytes of huge pages of a size the nodes have.
func HugepagesOf(m *model.Machine, nodes []int, size int64) int64 {
	var total int64
	for _, id := range nodes {
		n := m.NUMANode(id)
		if n == nil {
			continue
		}
		for _, pool := range n.Hugepages {
			if pool.PageBytes == size {
				total += pool.Pages * size
			}
		}
	}
	return total
}

// traits are what all CPUs of a group have in common.
type traits struct {
	l3  *int
	smt bool
}

func sharedTraits(m *model.Machine, cpus cpuset.CPUSet) traits {
	caches := map[int]bool{}
	withL3 := 0
	var t traits
	for _, c := range m.CPUs {
		if !cpus.Contains(c.ID) {
			continue
		}
		t.smt = t.smt || c.Siblings.Size() > 1
		if c.L3 != nil {
			caches[*c.L3] = true
			withL3++
		}
	}
	if withL3 == cpus.Size() {
		t.l3 = only(caches)
	}
	return t
}
