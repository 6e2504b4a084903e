// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explaintest

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/explain/snapshot"
)

// attributes are those of a device on one of some roots, now and then without
// one of them.
func (r *random) attributes(roots int) Attributes {
	at := r.IntN(roots)
	a := Attributes{
		root: Text(fmt.Sprintf("pci0000:%02x", at)), numa: Number(int64(at / 2)), rdma: Flag(!r.one(4)),
		peers: Texts(fmt.Sprintf("p%d", at), fmt.Sprintf("p%d", (at+1)%roots)),
	}
	switch r.IntN(12) {
	case 0:
		a[mixed] = Text("1")
	case 1:
		a[mixed] = Number(1)
	case 2:
		a[mixed] = Texts("1", "y")
	case 3:
		a[mixed] = resourceapi.DeviceAttribute{IntValues: []int64{1, 2}}
	case 4:
		a[mixed] = resourceapi.DeviceAttribute{BoolValues: []bool{true, false}}
	case 5:
		a[mixed] = resourceapi.DeviceAttribute{VersionValue: ptr.To("1.0.0")}
	case 6:
		a[mixed] = resourceapi.DeviceAttribute{VersionValues: []string{"1.0.0", "2.0.0"}}
	case 7:
		a[mixed] = Flag(true)
	}
	for _, name := range []resourceapi.QualifiedName{root, numa, rdma} {
		if r.one(20) {
			delete(a, name)
		}
	}
	if r.one(3) {
		a[peers] = Text(fmt.Sprintf("p%d", at))
	}
	// A name without a domain is in that of the driver.
	switch r.IntN(3) {
	case 0:
		a["model"] = Text(fmt.Sprint(r.IntN(2)))
	case 1:
		a["gpu.example.com/model"] = Text(fmt.Sprint(r.IntN(2)))
	}
	return a
}

func (r *random) publish(node string) {
	roots := 1 + r.IntN(4)
	for i, n := range []int{1 + r.IntN(6), 1 + r.IntN(6), r.IntN(4), r.IntN(4)} {
		driver := []string{driverGPU, driverNIC, driverCPU, driverPart}[i]
		var devices []resourceapi.Device
		for k := range n {
			devices = append(devices, r.device(driver, fmt.Sprintf("d%d", k), roots))
		}
		if cut := len(devices) / 2; r.odd(manyPools, 2) && cut > 0 {
			r.slices(driver, node, node+"-more", devices[:cut])
			devices = devices[cut:]
		}
		r.slices(driver, node, node, devices)
	}
}

func (r *random) device(driver, name string, roots int) resourceapi.Device {
	d := Device(name, r.attributes(roots))
	switch driver {
	case driverCPU:
		d.AllowMultipleAllocations = ptr.To(true)
		d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{cores: {Value: *resource.NewQuantity(int64(4+r.IntN(8)), resource.DecimalSI), RequestPolicy: r.policy()}}
		if r.one(3) {
			d.Capacity[memory] = resourceapi.DeviceCapacity{Value: resource.MustParse("8Gi"), RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: ptr.To(resource.MustParse("1Gi"))}}
		}
	case driverNIC:
		switch r.IntN(6) {
		case 0:
			d.AllowMultipleAllocations = ptr.To(true)
		case 1:
			d.AllowMultipleAllocations = ptr.To(false)
		}
		if r.one(2) {
			d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{bandwidth: {Value: resource.MustParse("100G")}}
		}
	case driverPart:
		d.ConsumesCounters = r.consumes()
		if r.one(4) {
			d.AllowMultipleAllocations = ptr.To(true)
		}
	}
	for range 2 {
		if r.odd(taints, 3) {
			d.Taints = append(d.Taints, resourceapi.DeviceTaint{
				Key: pick(r, "broken", "degraded"), Value: pick(r, "yes", "79"),
				Effect: pick(r, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute, resourceapi.DeviceTaintEffectNone),
			})
		}
	}
	if r.odd(binding, 4) {
		d.BindingConditions, d.BindsToNode = []string{"ready"}, ptr.To(r.one(2))
	}
	return d
}

func (r *random) consumes() []resourceapi.DeviceCounterConsumption {
	sets := []string{"set"}
	if r.on[partitions] && r.one(2) {
		sets = pick(r, []string{"second"}, []string{"set", "second"}, nil)
	}
	var all []resourceapi.DeviceCounterConsumption
	for _, set := range sets {
		c := resourceapi.DeviceCounterConsumption{CounterSet: set, Counters: map[string]resourceapi.Counter{
			"memory": {Value: *resource.NewQuantity(int64(1+r.IntN(3)), resource.DecimalSI)},
		}}
		if r.one(3) {
			c.Counters["engines"] = resourceapi.Counter{Value: resource.MustParse(pick(r, "500m", "1", "2"))}
		}
		if r.odd(groupsAndOperations, 8) {
			c.CompatibilityGroups = []string{pick(r, "a", "b")}
		}
		all = append(all, c)
	}
	return all
}

func (r *random) policy() *resourceapi.CapacityRequestPolicy {
	if !r.on[policies] && r.one(2) {
		return nil
	}
	least := int64(1)
	switch r.IntN(5) {
	case 0:
		return nil
	case 1:
		return &resourceapi.CapacityRequestPolicy{Default: resource.NewQuantity(2, resource.DecimalSI), ValidValues: []resource.Quantity{*resource.NewQuantity(2, resource.DecimalSI), *resource.NewQuantity(4, resource.DecimalSI)}}
	case 2:
		return &resourceapi.CapacityRequestPolicy{Default: resource.NewQuantity(1, resource.DecimalSI), ValidRange: &resourceapi.CapacityRequestPolicyRange{
			Min: resource.NewMilliQuantity(500, resource.DecimalSI), Step: resource.NewMilliQuantity(500, resource.DecimalSI)}}
	case 3:
		least = 2
	}
	return &resourceapi.CapacityRequestPolicy{Default: resource.NewQuantity(least, resource.DecimalSI), ValidRange: &resourceapi.CapacityRequestPolicyRange{
		Min: resource.NewQuantity(least, resource.DecimalSI), Max: resource.NewQuantity(6, resource.DecimalSI), Step: resource.NewQuantity(least, resource.DecimalSI)}}
}

// slices publishes the devices of a pool, now and then in an odd way.
func (r *random) slices(driver, node, name string, devices []resourceapi.Device) {
	parts := [][]resourceapi.Device{devices}
	if len(devices) > 1 && r.one(3) {
		at := 1 + r.IntN(len(devices)-1)
		parts = [][]resourceapi.Device{devices[:at], devices[at:]}
	}
	var pool []*resourceapi.ResourceSlice
	for i, part := range parts {
		s := Slice(driver, node, part...)
		s.Name = fmt.Sprintf("%s-%s-%d", name, driver, (i+1)%2)
		if r.odd(groupsAndOperations, 6) {
			s.Spec.SkipNodeOperations = []resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationAll}
		}
		pool = append(pool, s)
	}
	if driver == driverPart {
		pool = append(pool, r.counters(node, name)...)
	}
	for _, s := range pool {
		s.Spec.Pool.Name, s.Spec.Pool.ResourceSliceCount = name, int64(len(pool))
	}
	if r.odd(brokenPools, 3) {
		r.breakPool(pool, devices)
	}
	if r.odd(fabric, 2) {
		r.reach(pool)
	}
	r.Shuffle(len(pool), func(i, k int) { pool[i], pool[k] = pool[k], pool[i] })
	r.c.Snapshot.Slices = append(r.c.Snapshot.Slices, pool...)
}

// counters are what partitions share, in one slice or two.
func (r *random) counters(node, name string) []*resourceapi.ResourceSlice {
	sets := []resourceapi.CounterSet{r.counterSet("set")}
	if r.on[partitions] {
		sets = append(sets, r.counterSet("second"))
	}
	s := Slice(driverPart, node)
	s.Name = name + "-counters"
	s.Spec.SharedCounters = sets
	if len(sets) == 1 || r.one(2) {
		return []*resourceapi.ResourceSlice{s}
	}
	more := s.DeepCopy()
	more.Name += "-more"
	s.Spec.SharedCounters, more.Spec.SharedCounters = sets[:1], sets[1:]
	return []*resourceapi.ResourceSlice{s, more}
}

func (r *random) counterSet(name string) resourceapi.CounterSet {
	return resourceapi.CounterSet{Name: name, Counters: map[string]resourceapi.Counter{
		"memory":  {Value: *resource.NewQuantity(int64(2+r.IntN(5)), resource.DecimalSI)},
		"engines": {Value: *resource.NewQuantity(int64(1+r.IntN(4)), resource.DecimalSI)},
	}}
}

// breakPool makes a pool incomplete or contradictory.
func (r *random) breakPool(pool []*resourceapi.ResourceSlice, devices []resourceapi.Device) {
	switch last := pool[len(pool)-1]; r.IntN(6) {
	case 0:
		pool[0].Spec.Pool.ResourceSliceCount++
	case 1:
		pool[0].Spec.Pool.Generation++
	case 2:
		// The newest generation is whole, and has half of the devices.
		pool[0].Spec.Pool.Generation, pool[0].Spec.Pool.ResourceSliceCount = 2, 1
	case 3:
		if len(devices) > 1 {
			pool[0].Spec.Devices = append(pool[0].Spec.Devices[:len(pool[0].Spec.Devices):len(pool[0].Spec.Devices)], devices[0])
		}
	case 4:
		if len(last.Spec.SharedCounters) > 0 {
			last.Spec.SharedCounters[0].Name = "other"
		}
	case 5:
		if len(last.Spec.SharedCounters) > 0 {
			delete(last.Spec.SharedCounters[0].Counters, "engines")
		}
	}
}

// reach makes the devices of a pool to be had from other nodes.
func (r *random) reach(pool []*resourceapi.ResourceSlice) {
	kind := r.IntN(4)
	for _, s := range pool {
		switch kind {
		case 0:
			s.Spec.NodeName, s.Spec.AllNodes = nil, ptr.To(true)
		case 1:
			s.Spec.NodeName, s.Spec.NodeSelector = nil, r.rack()
		case 2:
			s.Spec.NodeName, s.Spec.PerDeviceNodeSelection = nil, ptr.To(true)
			for i := range s.Spec.Devices {
				d := &s.Spec.Devices[i]
				switch r.IntN(3) {
				case 0:
					d.NodeName = ptr.To(pick(r, "node-0", "node-1"))
				case 1:
					d.AllNodes = ptr.To(true)
				case 2:
					d.NodeSelector = r.rack()
				}
			}
		}
	}
}

func (r *random) rack() *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "rack", Operator: corev1.NodeSelectorOpIn, Values: []string{pick(r, "node-0", "node-1")}}},
	}}}
}

// hold gives devices to others.
func (r *random) hold() {
	rate := 6 + r.IntN(16)
	if r.on[crowded] {
		rate = 2
	}
	for _, s := range r.c.Snapshot.Slices {
		for _, d := range s.Spec.Devices {
			if !r.one(rate) {
				continue
			}
			id := snapshot.DeviceID{Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name, Device: d.Name}
			claim := Holding(fmt.Sprintf("holder-%d-%d", r.IntN(3), len(r.c.Snapshot.Claims)), id)
			result := &claim.Status.Allocation.Devices.Results[0]
			if ptr.Deref(d.AllowMultipleAllocations, false) != r.one(40) {
				uid := types.UID(fmt.Sprintf("share-%d", r.IntN(1000)))
				result.ShareID = &uid
				if len(d.Capacity) > 0 && !r.one(5) {
					result.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{}
					for name := range d.Capacity {
						result.ConsumedCapacity[name] = *resource.NewQuantity(int64(1+r.IntN(6)), resource.DecimalSI)
					}
				}
			}
			if r.one(10) {
				result.AdminAccess = ptr.To(true)
			}
			r.c.Snapshot.Claims = append(r.c.Snapshot.Claims, claim)
		}
	}
}
