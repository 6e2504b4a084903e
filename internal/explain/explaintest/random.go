// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explaintest

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/explain/snapshot"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// Case is a cluster, and claims that are to be allocated together.
type Case struct {
	Snapshot snapshot.Objects
	Claims   []*resourceapi.ResourceClaim
}

// Names in random cases.
const (
	driverGPU  = "gpu.example.com"
	driverNIC  = "nic.example.com"
	driverCPU  = "cpu.example.com"
	driverPart = "part.example.com"
	root       = slicecodec.AttrPCIeRoot
	numa       = slicecodec.AttrNUMANode
	rdma       = "example.com/rdma"
	peers      = "example.com/peers"
	mixed      = "example.com/mixed"
	cores      = "cpu.example.com/cores"
	memory     = "cpu.example.com/memory"
	bandwidth  = "nic.example.com/bandwidth"
	place      = "derived/place"
)

// theme is a kind of oddity. A case has some of them, and those often: all of
// them everywhere would hide each other.
type theme int

const (
	gatesOff theme = iota
	listsOn
	wrongNames
	failingSelectors
	taints
	binding
	brokenPools
	fabric
	manyPools
	partitions
	policies
	admin
	wantsAll
	subrequests
	crowded
	tooMany
	groupsAndOperations
	derived
	themes
)

type random struct {
	*rand.Rand
	c  Case
	on [themes]bool
}

// one in n.
func (r *random) one(n int) bool { return r.IntN(n) == 0 }

// odd is one in n where the case has the theme.
func (r *random) odd(t theme, n int) bool { return r.on[t] && r.one(n) }

func pick[T any](r *random, from ...T) T { return from[r.IntN(len(from))] }

// Random is the case of a seed: it uses every feature of the allocator, and is small
// enough to be searched whole.
func Random(seed uint64) Case {
	r := &random{Rand: rand.New(rand.NewPCG(seed, 1))} //nolint:gosec // a repeatable case, no secret
	for t := range r.on {
		r.on[t] = r.one(4)
	}
	r.c.Snapshot = snapshot.Objects{Source: fmt.Sprintf("seed %d", seed), Minor: allocation.NewestMinor, Gates: r.gates(), Classes: r.classes()}
	nodes := 1
	if r.one(8) || r.on[fabric] {
		nodes = 2
	}
	for i := range nodes {
		r.c.Snapshot.Nodes = append(r.c.Snapshot.Nodes, r.node(fmt.Sprintf("node-%d", i)))
	}
	for _, n := range r.c.Snapshot.Nodes {
		r.publish(n.Name)
	}
	r.hold()
	for i := range 1 + r.IntN(5)/3 {
		r.c.Claims = append(r.c.Claims, r.claim(fmt.Sprintf("claim-%d", i)))
	}
	return r.c
}

func (r *random) node(name string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rack": name}}}
	if r.one(2) {
		n.Status.DeclaredFeatures = []string{allocation.GateNodeOperations}
	}
	return n
}

func (r *random) gates() allocation.Gates {
	g := allocation.DefaultGates(allocation.NewestMinor)
	if r.on[gatesOff] && r.one(4) {
		g = allocation.DefaultGates(pick(r, 34, 35, 36))
	}
	g.ListTypeAttributes = r.on[listsOn]
	g.DerivedAttributes = r.on[derived] && !r.one(12)
	g.OptionalNodeOperations = r.odd(groupsAndOperations, 2)
	for _, gate := range []*bool{
		&g.AdminAccess, &g.ConsumableCapacity, &g.DeviceTaints, &g.PartitionableDevices, &g.PrioritizedList, &g.DeviceBindingAndStatus,
		&g.FractionalCapacityRange,
	} {
		if r.odd(gatesOff, 6) {
			*gate = false
		}
	}
	if !allocation.KnowsConsumableCapacity(g) {
		// The oldest allocator looks at pools in no fixed order, so with these its
		// answer is left to chance.
		r.on[failingSelectors], r.on[wantsAll] = false, false
	}
	return g
}

func (r *random) classes() map[string]*resourceapi.DeviceClass {
	all := map[string]*resourceapi.DeviceClass{}
	for _, c := range []*resourceapi.DeviceClass{
		Class("gpu", `device.driver == "gpu.example.com"`), Class("nic", `device.driver == "nic.example.com"`),
		Class("cpu", `device.driver == "cpu.example.com"`), Class("part", `device.driver == "part.example.com"`),
		Class("rdma", `device.driver == "nic.example.com" && device.attributes["example.com"].?rdma.orValue(false)`),
		Class("any", "true"), Class("fails", `device.attributes["example.com"].rdma`),
	} {
		all[c.Name] = c
	}
	near := Class("near", `device.driver != "part.example.com"`)
	near.Spec.Selectors = append(near.Spec.Selectors, Selectors(`device.attributes["resource.kubernetes.io"].?numaNode.orValue(0) == 0`)...)
	all["near"] = near
	return all
}
