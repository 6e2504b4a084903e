// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explaintest

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/allocation"
)

func (r *random) claim(name string) *resourceapi.ResourceClaim {
	c := Claim(name, nil)
	pairs := r.one(3)
	for i := range 1 + r.IntN(4) {
		class := pick(r, "gpu", "gpu", "nic", "nic", "cpu", "part", "rdma", "any", "near")
		switch {
		case pairs:
			class = []string{"gpu", "nic"}[i%2]
		case r.odd(partitions, 2):
			class = "part"
		case r.odd(policies, 2):
			class = "cpu"
		}
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, r.request(fmt.Sprintf("r%d", i), class))
	}
	for range r.IntN(3) {
		c.Spec.Devices.Constraints = append(c.Spec.Devices.Constraints, r.constraint(c))
	}
	r.derive(c)
	return c
}

func (r *random) request(name, class string) resourceapi.DeviceRequest {
	switch {
	case r.odd(wrongNames, 8):
		class = pick(r, "missing", "nics", "gpuu")
	case r.odd(failingSelectors, 6):
		class = "fails"
	}
	request := Request(name, class, 1)
	e := request.Exactly
	if r.one(4) {
		e.Count = int64(1 + r.IntN(3))
	}
	if r.odd(tooMany, 12) {
		e.Count = 33
	}
	if r.one(4) {
		e.Selectors = Selectors(r.expression())
	}
	if r.odd(wantsAll, 4) {
		e.AllocationMode, e.Count = resourceapi.DeviceAllocationModeAll, 0
	}
	if r.odd(admin, 3) {
		e.AdminAccess = ptr.To(!r.one(6))
	}
	e.Tolerations = r.tolerations()
	e.Capacity = r.capacity(class)
	if !r.one(12) && !r.odd(subrequests, 2) {
		return request
	}
	request.Exactly = nil
	for i := range 1 + r.IntN(3) {
		request.FirstAvailable = append(request.FirstAvailable, r.subrequest(fmt.Sprintf("s%d", i), class))
	}
	return request
}

func (r *random) subrequest(name, class string) resourceapi.DeviceSubRequest {
	if r.one(6) {
		class = pick(r, "gpu", "nic", "cpu", "part")
	}
	s := resourceapi.DeviceSubRequest{
		Name: name, DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(1 + r.IntN(3)),
		Capacity: r.capacity(class), Tolerations: r.tolerations(),
	}
	if r.odd(tooMany, 6) {
		s.Count = int64(15 + r.IntN(20))
	}
	if r.one(3) {
		s.Selectors = Selectors(r.expression())
	}
	if r.odd(wantsAll, 4) {
		s.AllocationMode, s.Count = resourceapi.DeviceAllocationModeAll, 0
	}
	return s
}

func (r *random) tolerations() []resourceapi.DeviceToleration {
	if !r.odd(taints, 2) {
		return nil
	}
	switch r.IntN(4) {
	case 0:
		return []resourceapi.DeviceToleration{{Operator: resourceapi.DeviceTolerationOpExists}}
	case 1:
		return []resourceapi.DeviceToleration{{Key: "broken", Operator: resourceapi.DeviceTolerationOpEqual, Value: pick(r, "yes", "79")}}
	case 2:
		return []resourceapi.DeviceToleration{{Key: "degraded", Operator: resourceapi.DeviceTolerationOpExists, Effect: pick(r, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute)}}
	}
	return []resourceapi.DeviceToleration{{Key: "broken", Operator: resourceapi.DeviceTolerationOpExists}}
}

func (r *random) capacity(class string) *resourceapi.CapacityRequirements {
	requests := map[resourceapi.QualifiedName]resource.Quantity{}
	switch {
	case class == "cpu" && !r.one(4):
		requests[cores] = resource.MustParse(pick(r, "1", "2", "3", "4", "1500m", "9"))
		if r.one(8) {
			requests[memory] = resource.MustParse(pick(r, "1Gi", "3Gi", "9Gi"))
		}
	case class == "nic" && r.one(4):
		requests[bandwidth] = resource.MustParse(pick(r, "10G", "60G", "200G"))
	case class == "near" && r.odd(policies, 3):
		requests[pick[resourceapi.QualifiedName](r, cores, bandwidth)] = resource.MustParse("2")
	default:
		return nil
	}
	return &resourceapi.CapacityRequirements{Requests: requests}
}

func (r *random) expression() string {
	if r.odd(failingSelectors, 2) {
		return pick(r, `device.attributes["example.com"].rdma`, `device.attributes["resource.kubernetes.io"].numaNode == 0`,
			`device.attributes["example.com"].rdma && device.attributes["resource.kubernetes.io"].numaNode == 0`,
			`device.capacity["cpu.example.com"].cores.compareTo(quantity("2")) >= 0`)
	}
	if r.odd(wrongNames, 3) {
		return pick(r, `"rmda" in device.attributes["example.com"] && device.attributes["example.com"].rmda`,
			`device.attributes["resource.kubernetes.io"].?numa.orValue(7) == 0`)
	}
	// The oldest allocator evaluates this as if no device were shared.
	if allocation.KnowsConsumableCapacity(r.c.Snapshot.Gates) && r.one(6) {
		return `!device.allowMultipleAllocations`
	}
	return pick(r,
		`"rdma" in device.attributes["example.com"] && device.attributes["example.com"].rdma`,
		`"numaNode" in device.attributes["resource.kubernetes.io"] && device.attributes["resource.kubernetes.io"].numaNode == 0`,
		`!("numaNode" in device.attributes["resource.kubernetes.io"]) || device.attributes["resource.kubernetes.io"].numaNode != 1`,
		`device.attributes["resource.kubernetes.io"].?pcieRoot.orValue("") != "pci0000:01"`,
	)
}

func (r *random) constraint(c *resourceapi.ResourceClaim) resourceapi.DeviceConstraint {
	var names []string
	for _, request := range c.Spec.Devices.Requests {
		switch {
		case r.one(3):
		case len(request.FirstAvailable) > 0 && r.one(2):
			for _, s := range request.FirstAvailable {
				if r.one(2) {
					names = append(names, resourceclaim.CreateSubRequestRef(request.Name, s.Name))
				}
			}
		default:
			names = append(names, request.Name)
		}
	}
	if r.odd(wrongNames, 8) {
		names = append(names, "absent")
	}
	attribute := pick(r, root, root, root, numa, numa, peers, mixed, "gpu.example.com/model")
	if r.odd(derived, 3) {
		attribute = place
	}
	if r.odd(wrongNames, 3) {
		attribute = pick(r, "example.com/absent", "resource.kubernetes.io/pcieroot", "example.com/numaNode")
	}
	if r.one(3) {
		return Distinct(attribute, names...)
	}
	return Match(attribute, names...)
}
