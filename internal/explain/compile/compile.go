// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/explain/cluster"
	"plumbline.dev/plumbline/internal/explain/solver"
)

// maxClaims is the most claims that the solver takes at once; a pod has 32 at
// most.
const maxClaims = 64

// Compiler compiles for nodes of one cluster. It may be used by several
// goroutines.
type Compiler struct {
	cluster   *cluster.Cluster
	evaluator *Selectors
}

// New makes a compiler.
func New(c *cluster.Cluster, selectors *Selectors) *Compiler {
	return &Compiler{cluster: c, evaluator: selectors}
}

// Device is a device of a node.
type Device struct {
	ID     cluster.DeviceID
	Device *resourceapi.Device
	Slice  *resourceapi.ResourceSlice
	Pool   *cluster.Pool
	Held   *cluster.Held
}

// Alternative is a request, or one of its subrequests, on a node.
type Alternative struct {
	Ask
	// Refused says why the allocator refuses to begin, "" if it does not, and
	// Refusal what kind of reason that is.
	Refused string
	Refusal Refusal
	// Why says for each device of the node whether it is for the request.
	Why []Why
	// Takes is what the request takes of each device that is shared out.
	Takes []amounts
}

// Request is a request of a claim on a node.
type Request struct {
	Name         string
	Alternatives []Alternative
}

// Claim is a claim on a node.
type Claim struct {
	Claim    *resourceapi.ResourceClaim
	Requests []Request
}

// Node is claims to be allocated together on a node.
type Node struct {
	Cluster *cluster.Cluster
	Node    *corev1.Node
	Pools   []*cluster.Pool
	// Devices are those that can be allocated, in the allocator's order.
	Devices []Device
	Claims  []Claim
	Problem *solver.Problem
	// NotJudged says what we do not know to judge; the answer is unknown then.
	NotJudged []string
}

// Compile looks at each device of a node for each request. An error is a slice
// that cannot be read.
func (c *Compiler) Compile(ctx context.Context, node *corev1.Node, claims []*resourceapi.ResourceClaim) (*Node, error) {
	pools, err := c.cluster.Pools(node)
	if err != nil {
		return nil, err
	}
	n := &Node{Cluster: c.cluster, Node: node, Pools: pools}
	if len(claims) > maxClaims {
		n.NotJudged = append(n.NotJudged, fmt.Sprintf("%d claims at once: at most %d can be", len(claims), maxClaims))
		claims = claims[:maxClaims]
	}
	for _, pool := range pools {
		n.addPool(pool)
	}
	j := judge{Compiler: c, ctx: ctx, node: n}
	for _, claim := range claims {
		view := Claim{Claim: claim}
		for i := range claim.Spec.Devices.Requests {
			view.Requests = append(view.Requests, j.request(claim, i))
		}
		n.Claims = append(n.Claims, view)
	}
	n.build()
	return n, nil
}

func (n *Node) addPool(pool *cluster.Pool) {
	if !pool.Usable() {
		return
	}
	for _, slice := range pool.Slices {
		if n.Cluster.Gates.CompatibilityGroups && cluster.UsesCompatibilityGroups(slice) {
			n.NotJudged = append(n.NotJudged, fmt.Sprintf("ResourceSlice %s has compatibility groups (%s)", slice.Name, cluster.GateCompatibilityGroups))
		}
		for i := range slice.Spec.Devices {
			d := &slice.Spec.Devices[i]
			id := cluster.DeviceID{Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name, Device: d.Name}
			n.Devices = append(n.Devices, Device{ID: id, Device: d, Slice: slice, Pool: pool, Held: n.Cluster.Holder(id)})
		}
	}
}

// shared says whether several requests can have a device.
func (n *Node) shared(d *Device) bool {
	return n.Cluster.Gates.ConsumableCapacity && d.Device.AllowMultipleAllocations != nil && *d.Device.AllowMultipleAllocations
}

// Selectors is the store of selectors.
func (c *Compiler) Selectors() *Selectors { return c.evaluator }
