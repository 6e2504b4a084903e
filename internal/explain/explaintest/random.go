// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explaintest

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/explain/cluster"
)

// Case is a cluster, and claims that are to be allocated together.
type Case struct {
	Snapshot cluster.Snapshot
	Claims   []*resourceapi.ResourceClaim
}

// Names in random cases.
const (
	driverGPU  = "gpu.example.com"
	driverNIC  = "nic.example.com"
	driverCPU  = "cpu.example.com"
	driverPart = "part.example.com"
	root       = "resource.kubernetes.io/pcieRoot"
	numa       = "example.com/numa"
	peers      = "example.com/peers"
	mixed      = "example.com/mixed"
	cores      = "cpu.example.com/cores"
	bandwidth  = "nic.example.com/bandwidth"
)

type random struct {
	*rand.Rand
	c Case
}

// one in n.
func (r *random) one(n int) bool { return r.IntN(n) == 0 }

func pick[T any](r *random, from ...T) T { return from[r.IntN(len(from))] }

// Random is the case of a seed: odd in every way that the allocator knows, and
// small enough for it.
func Random(seed uint64) Case {
	r := &random{Rand: rand.New(rand.NewPCG(seed, 1))} //nolint:gosec // a repeatable case, no secret
	r.c.Snapshot = cluster.Snapshot{Source: fmt.Sprintf("seed %d", seed), Minor: cluster.Newest, Gates: r.gates(), Classes: r.classes()}
	nodes := 1
	if r.one(8) {
		nodes = 2
	}
	for i := range nodes {
		name := fmt.Sprintf("node-%d", i)
		r.c.Snapshot.Nodes = append(r.c.Snapshot.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rack": name}}})
		r.publish(name)
	}
	r.hold()
	for i := range 1 + r.IntN(5)/3 {
		r.c.Claims = append(r.c.Claims, r.claim(fmt.Sprintf("claim-%d", i)))
	}
	return r.c
}

func (r *random) gates() cluster.Gates {
	g := cluster.GatesOf(cluster.Newest)
	if r.one(3) {
		g.ListTypeAttributes = true
	}
	for _, gate := range []*bool{
		&g.AdminAccess, &g.ConsumableCapacity, &g.DeviceTaints, &g.PartitionableDevices, &g.PrioritizedList, &g.DeviceBindingAndStatus,
		&g.FractionalCapacityRange,
	} {
		if r.one(25) {
			*gate = false
		}
	}
	return g
}

func (r *random) classes() map[string]*resourceapi.DeviceClass {
	all := map[string]*resourceapi.DeviceClass{}
	for _, c := range []*resourceapi.DeviceClass{
		Class("gpu", `device.driver == "gpu.example.com"`), Class("nic", `device.driver == "nic.example.com"`),
		Class("cpu", `device.driver == "cpu.example.com"`), Class("part", `device.driver == "part.example.com"`),
		Class("rdma", `device.driver == "nic.example.com" && device.attributes["example.com"].?rdma.orValue(false)`),
		Class("any", "true"),
	} {
		all[c.Name] = c
	}
	return all
}

// attributes are those of a device on one of some roots, now and then without
// one of them.
func (r *random) attributes(roots int) Attributes {
	at := r.IntN(roots)
	a := Attributes{
		root: Text(fmt.Sprintf("pci0000:%02x", at)), numa: Number(int64(at / 2)), "example.com/rdma": Flag(!r.one(4)),
		peers: Texts(fmt.Sprintf("p%d", at), fmt.Sprintf("p%d", (at+1)%roots)),
	}
	switch r.IntN(4) {
	case 0:
		a[mixed] = Text("x")
	case 1:
		a[mixed] = Number(1)
	case 2:
		a[mixed] = Texts("x", "y")
	}
	for _, name := range []resourceapi.QualifiedName{root, numa, "example.com/rdma"} {
		if r.one(20) {
			delete(a, name)
		}
	}
	if r.one(3) {
		a[peers] = Text(fmt.Sprintf("p%d", at))
	}
	return a
}

func (r *random) publish(node string) {
	roots := 1 + r.IntN(4)
	for i, n := range []int{1 + r.IntN(6), 1 + r.IntN(6), r.IntN(4), r.IntN(4)} {
		driver := []string{driverGPU, driverNIC, driverCPU, driverPart}[i]
		var devices []resourceapi.Device
		for k := range n {
			d := Device(fmt.Sprintf("d%d", k), r.attributes(roots))
			switch driver {
			case driverCPU:
				d.AllowMultipleAllocations = ptr.To(true)
				d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{cores: {Value: *resource.NewQuantity(int64(4+r.IntN(8)), resource.DecimalSI), RequestPolicy: r.policy()}}
			case driverNIC:
				if r.one(4) {
					d.AllowMultipleAllocations = ptr.To(true)
				}
				if r.one(2) {
					d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{bandwidth: {Value: resource.MustParse("100G")}}
				}
			case driverPart:
				d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: "set", Counters: map[string]resourceapi.Counter{
					"memory": {Value: *resource.NewQuantity(int64(1+r.IntN(3)), resource.DecimalSI)},
				}}}
				if r.one(4) {
					d.AllowMultipleAllocations = ptr.To(true)
				}
			}
			if r.one(10) {
				d.Taints = []resourceapi.DeviceTaint{{Key: "broken", Value: "yes", Effect: pick(r, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute, resourceapi.DeviceTaintEffectNone)}}
			}
			if r.one(30) {
				d.BindingConditions = []string{"ready"}
			}
			devices = append(devices, d)
		}
		r.slices(driver, node, devices)
	}
}

func (r *random) policy() *resourceapi.CapacityRequestPolicy {
	switch r.IntN(4) {
	case 0:
		return nil
	case 1:
		return &resourceapi.CapacityRequestPolicy{Default: resource.NewQuantity(2, resource.DecimalSI), ValidValues: []resource.Quantity{*resource.NewQuantity(2, resource.DecimalSI), *resource.NewQuantity(4, resource.DecimalSI)}}
	case 2:
		return &resourceapi.CapacityRequestPolicy{Default: resource.NewQuantity(1, resource.DecimalSI), ValidRange: &resourceapi.CapacityRequestPolicyRange{
			Min: resource.NewMilliQuantity(500, resource.DecimalSI), Step: resource.NewMilliQuantity(500, resource.DecimalSI)}}
	}
	return &resourceapi.CapacityRequestPolicy{Default: resource.NewQuantity(1, resource.DecimalSI), ValidRange: &resourceapi.CapacityRequestPolicyRange{
		Min: resource.NewQuantity(1, resource.DecimalSI), Max: resource.NewQuantity(6, resource.DecimalSI), Step: resource.NewQuantity(1, resource.DecimalSI)}}
}

// slices publishes the devices of a pool, now and then in an odd way.
func (r *random) slices(driver, node string, devices []resourceapi.Device) {
	parts := [][]resourceapi.Device{devices}
	if len(devices) > 1 && r.one(3) {
		at := 1 + r.IntN(len(devices)-1)
		parts = [][]resourceapi.Device{devices[:at], devices[at:]}
	}
	var pool []*resourceapi.ResourceSlice
	for i, part := range parts {
		s := Slice(driver, node, part...)
		s.Name = fmt.Sprintf("%s-%s-%d", node, driver, (i+1)%2)
		pool = append(pool, s)
	}
	if driver == driverPart {
		s := Slice(driver, node)
		s.Name += "-counters"
		s.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "set", Counters: map[string]resourceapi.Counter{"memory": {Value: *resource.NewQuantity(int64(2+r.IntN(4)), resource.DecimalSI)}}}}
		if r.one(15) {
			s.Spec.SharedCounters[0].Name = "other"
		}
		pool = append(pool, s)
	}
	for _, s := range pool {
		s.Spec.Pool.ResourceSliceCount = int64(len(pool))
	}
	r.odd(pool, devices)
	r.Shuffle(len(pool), func(i, k int) { pool[i], pool[k] = pool[k], pool[i] })
	r.c.Snapshot.Slices = append(r.c.Snapshot.Slices, pool...)
}

// odd makes a pool incomplete, contradictory, or for other nodes, now and then.
func (r *random) odd(pool []*resourceapi.ResourceSlice, devices []resourceapi.Device) {
	switch r.IntN(40) {
	case 0:
		pool[0].Spec.Pool.ResourceSliceCount++
	case 1:
		pool[0].Spec.Pool.Generation++
	case 2:
		if len(devices) > 1 {
			pool[0].Spec.Devices = append(pool[0].Spec.Devices, devices[0])
		}
	case 3:
		for _, s := range pool {
			s.Spec.NodeName, s.Spec.AllNodes = nil, ptr.To(true)
		}
	case 4:
		for _, s := range pool {
			s.Spec.NodeName, s.Spec.NodeSelector = nil, &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "rack", Operator: corev1.NodeSelectorOpIn, Values: []string{pick(r, "node-0", "node-1")}}},
			}}}
		}
	case 5:
		for _, s := range pool {
			s.Spec.NodeName, s.Spec.PerDeviceNodeSelection = nil, ptr.To(true)
			for i := range s.Spec.Devices {
				s.Spec.Devices[i].NodeName = ptr.To(pick(r, "node-0", "node-1"))
			}
		}
	}
}

// hold gives devices to others.
func (r *random) hold() {
	rate := 2 + r.IntN(12)
	for _, s := range r.c.Snapshot.Slices {
		for _, d := range s.Spec.Devices {
			if !r.one(rate) {
				continue
			}
			id := cluster.DeviceID{Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name, Device: d.Name}
			claim := Holding(fmt.Sprintf("holder-%d", r.IntN(3)), id)
			claim.Name += fmt.Sprintf("-%d", len(r.c.Snapshot.Claims))
			result := &claim.Status.Allocation.Devices.Results[0]
			if d.AllowMultipleAllocations != nil {
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

func (r *random) claim(name string) *resourceapi.ResourceClaim {
	c := Claim(name, nil)
	pairs := r.one(3)
	for i := range 1 + r.IntN(4) {
		class := pick(r, "gpu", "gpu", "nic", "nic", "cpu", "part", "rdma", "any")
		if pairs {
			class = []string{"gpu", "nic"}[i%2]
		}
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, r.request(fmt.Sprintf("r%d", i), class))
	}
	for range r.IntN(3) {
		c.Spec.Devices.Constraints = append(c.Spec.Devices.Constraints, r.constraint(c))
	}
	return c
}

func (r *random) request(name, class string) resourceapi.DeviceRequest {
	if r.one(30) {
		class = "missing"
	}
	request := Request(name, class, 1)
	e := request.Exactly
	if r.one(4) {
		e.Count = int64(1 + r.IntN(3))
	}
	if r.one(150) {
		e.Count = 33
	}
	if r.one(4) {
		e.Selectors = Selectors(r.expression())
	}
	if r.one(25) {
		e.AllocationMode, e.Count = resourceapi.DeviceAllocationModeAll, 0
	}
	if r.one(12) {
		e.AdminAccess = ptr.To(true)
	}
	if r.one(5) {
		e.Tolerations = []resourceapi.DeviceToleration{{Key: "broken", Operator: resourceapi.DeviceTolerationOpExists}}
	}
	e.Capacity = r.capacity(class)
	if !r.one(6) {
		return request
	}
	request.Exactly = nil
	for i := range 1 + r.IntN(2) {
		s := resourceapi.DeviceSubRequest{Name: fmt.Sprintf("s%d", i), DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(1 + r.IntN(3)), Capacity: r.capacity(class)}
		if r.one(15) {
			s.Count = int64(15 + r.IntN(20))
		}
		if r.one(3) {
			s.Selectors = Selectors(r.expression())
		}
		request.FirstAvailable = append(request.FirstAvailable, s)
	}
	return request
}

func (r *random) capacity(class string) *resourceapi.CapacityRequirements {
	switch {
	case class == "cpu" && !r.one(4):
		return &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{cores: resource.MustParse(pick(r, "1", "2", "3", "4", "1500m", "9"))}}
	case class == "nic" && r.one(4):
		return &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{bandwidth: resource.MustParse(pick(r, "10G", "60G", "200G"))}}
	}
	return nil
}

func (r *random) expression() string {
	if r.one(5) {
		return pick(r, `device.attributes["example.com"].rdma`, `device.attributes["example.com"].numa == 0`)
	}
	return pick(r,
		`"rdma" in device.attributes["example.com"] && device.attributes["example.com"].rdma`,
		`"numa" in device.attributes["example.com"] && device.attributes["example.com"].numa == 0`,
		`!("numa" in device.attributes["example.com"]) || device.attributes["example.com"].numa != 1`,
		`device.attributes["resource.kubernetes.io"].?pcieRoot.orValue("") != "pci0000:01"`,
	)
}

func (r *random) constraint(c *resourceapi.ResourceClaim) resourceapi.DeviceConstraint {
	var names []string
	for _, request := range c.Spec.Devices.Requests {
		switch {
		case r.one(3):
		case len(request.FirstAvailable) > 0 && r.one(2):
			names = append(names, request.Name+"/"+request.FirstAvailable[0].Name)
		default:
			names = append(names, request.Name)
		}
	}
	attribute := pick(r, root, root, root, numa, numa, peers, mixed)
	if r.one(25) {
		attribute = "example.com/absent"
	}
	if r.one(3) {
		return Distinct(attribute, names...)
	}
	return Match(attribute, names...)
}
