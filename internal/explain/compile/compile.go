// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package compile makes a problem for the solver of claims and a node: which
// device fits which request, and why the others do not. Selectors are evaluated
// by the scheduler's own library; what fits together is the solver's.
package compile

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/explain/snapshot"
	"plumbline.dev/plumbline/internal/explain/solver"
)

// maxClaims is the most claims that the solver takes at once; a pod has 32 at
// most.
const maxClaims = 64

// Compiler compiles for nodes of one cluster. It may be used by several
// goroutines.
type Compiler struct {
	cluster   *snapshot.Cluster
	selectors *Selectors
}

// New makes a compiler.
func New(c *snapshot.Cluster, selectors *Selectors) *Compiler {
	return &Compiler{cluster: c, selectors: selectors}
}

// Device is a device of a node.
type Device struct {
	ID     snapshot.DeviceID
	Device *resourceapi.Device
	Slice  *resourceapi.ResourceSlice
	Pool   *snapshot.Pool
	Held   *snapshot.Held
}

// Alternative is a request, or one of its subrequests, on a node.
type Alternative struct {
	Subrequest
	// Refused says why the allocator refuses to begin, "" if it does not, and
	// Refusal what kind of reason that is.
	Refused string
	Refusal Refusal
	// Why says for each device of the node whether it is for the request.
	Why []Why
	// Values are those of the attributes that the request derives, by name and device.
	// Those of devices that do not match are not known.
	Values map[string][]Derived
	// Consumes is what the request consumes of each device that is shared out.
	Consumes []amounts
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
	Cluster *snapshot.Cluster
	Node    *corev1.Node
	Pools   []*snapshot.Pool
	// Devices are those that can be allocated, in the allocator's order.
	Devices []Device
	Claims  []Claim
	Problem *solver.Problem
	// Unsupported says which features the claims or slices use that this package does not
	// implement; the answer is unknown then.
	Unsupported []string
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
		n.Unsupported = append(n.Unsupported, fmt.Sprintf("%d claims at once: at most %d can be", len(claims), maxClaims))
		claims = claims[:maxClaims]
	}
	for _, pool := range pools {
		n.addPool(pool)
	}
	e := evaluation{Compiler: c, ctx: ctx, node: n}
	for _, claim := range claims {
		view := Claim{Claim: claim}
		for i := range claim.Spec.Devices.Requests {
			view.Requests = append(view.Requests, e.request(claim, i))
		}
		n.Claims = append(n.Claims, view)
	}
	n.build()
	return n, nil
}

func (n *Node) addPool(pool *snapshot.Pool) {
	if !pool.Usable() {
		return
	}
	for _, slice := range pool.Slices {
		if n.Cluster.Gates.CompatibilityGroups && snapshot.UsesCompatibilityGroups(slice) {
			n.Unsupported = append(n.Unsupported, fmt.Sprintf("ResourceSlice %s has compatibility groups (%s)", slice.Name, allocation.GateCompatibilityGroups))
		}
		for i := range slice.Spec.Devices {
			d := &slice.Spec.Devices[i]
			id := snapshot.DeviceID{Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name, Device: d.Name}
			n.Devices = append(n.Devices, Device{ID: id, Device: d, Slice: slice, Pool: pool, Held: n.Cluster.Holder(id)})
		}
	}
}

// shared says whether several requests can have a device.
func (n *Node) shared(d *Device) bool {
	return n.Cluster.Gates.ConsumableCapacity && d.Device.AllowMultipleAllocations != nil && *d.Device.AllowMultipleAllocations
}

// Selectors is the store of selectors.
func (c *Compiler) Selectors() *Selectors { return c.selectors }

// Subrequest is one of a request's firstAvailable, or the request itself where it has
// exactly.
type Subrequest struct {
	// Name is "request" or "request/subrequest".
	Name  string
	Class string
	// Path is where it lies in the claim's spec, for messages.
	Path string
	All  bool
	// Count is how many devices it wants where it does not want all.
	Count int64
	// Mode is the allocation mode, as written where it is not a known one.
	Mode           resourceapi.DeviceAllocationMode
	Admin          bool
	AsksAdmin      bool
	Selectors      []resourceapi.DeviceSelector
	Tolerations    []resourceapi.DeviceToleration
	Capacity       *resourceapi.CapacityRequirements
	Derives        []resourceapi.DeviceDerivedAttribute
	FirstAvailable bool
}

// Subrequests lists the alternatives of a request: one, unless it has firstAvailable. It
// is empty for a request that has neither, such as one of a newer API.
func Subrequests(index int, r *resourceapi.DeviceRequest) []Subrequest {
	path := fmt.Sprintf("spec.devices.requests[%d]", index)
	if len(r.FirstAvailable) > 0 {
		all := make([]Subrequest, len(r.FirstAvailable))
		for i, s := range r.FirstAvailable {
			all[i] = Subrequest{
				Name: resourceclaim.CreateSubRequestRef(r.Name, s.Name), Class: s.DeviceClassName, Path: fmt.Sprintf("%s.firstAvailable[%d]", path, i),
				Selectors: s.Selectors, Tolerations: s.Tolerations, Capacity: s.Capacity, Derives: s.DerivedAttributes, FirstAvailable: true,
			}
			all[i].setMode(s.AllocationMode, s.Count)
		}
		return all
	}
	e := r.Exactly
	if e == nil {
		return nil
	}
	subrequest := Subrequest{
		Name: r.Name, Class: e.DeviceClassName, Path: path + ".exactly", Selectors: e.Selectors, Tolerations: e.Tolerations,
		Capacity: e.Capacity, Derives: e.DerivedAttributes, Admin: ptr.Deref(e.AdminAccess, false), AsksAdmin: e.AdminAccess != nil,
	}
	subrequest.setMode(e.AllocationMode, e.Count)
	return []Subrequest{subrequest}
}

// setMode sets the API server's defaults.
func (s *Subrequest) setMode(mode resourceapi.DeviceAllocationMode, count int64) {
	s.Mode, s.Count = mode, count
	switch mode {
	case resourceapi.DeviceAllocationModeAll:
		s.All = true
	case "", resourceapi.DeviceAllocationModeExactCount:
		s.Mode = resourceapi.DeviceAllocationModeExactCount
		if count == 0 {
			s.Count = 1
		}
	}
}

// build makes the solver's problem.
func (n *Node) build() {
	p := &solver.Problem{MaxResults: resourceapi.AllocationResultsMaxSize, Devices: make([]solver.Device, len(n.Devices))}
	n.Problem = p
	for d := range n.Devices {
		p.Devices[d].Shared = n.shared(&n.Devices[d])
	}
	for c := range n.Claims {
		claim := &n.Claims[c]
		var s solver.Claim
		for r := range claim.Requests {
			var request solver.Request
			for a := range claim.Requests[r].Alternatives {
				request.Alternatives = append(request.Alternatives, n.alternative(&claim.Requests[r].Alternatives[a]))
			}
			s.Requests = append(s.Requests, request)
		}
		for k := range claim.Claim.Spec.Devices.Constraints {
			s.Constraints = append(s.Constraints, n.constraint(claim, k))
		}
		p.Claims = append(p.Claims, s)
	}
	for d := range n.Devices {
		if p.Devices[d].Shared {
			n.sharedCapacity(d)
		}
	}
	n.sharedCounters()
}

func (n *Node) alternative(a *Alternative) solver.Alternative {
	s := solver.Alternative{
		Invalid: a.Refused != "", Count: int(min(a.Count, 1<<30)), WantsAll: a.All, Admin: a.Admin,
		Fit: make([]solver.Fit, len(n.Devices)), Needs: make([][]int64, len(n.Devices)),
	}
	for d := range n.Devices {
		held := n.Devices[d].Held
		taken := held != nil && held.Whole && !a.Admin
		switch obstacle := a.Why[d].Obstacle; {
		case obstacle == None:
			s.Fit[d] = solver.Yes
		case obstacle == SelectorFails || obstacle == CapacityFails:
			// The allocator skips an allocated device before it evaluates selectors.
			if !taken {
				s.Fit[d] = solver.Abort
			}
		case obstacle == TooLittleLeft && a.All:
			s.Fit[d] = solver.RejectedLate
		}
		if a.All && a.Why[d].inAll() {
			s.All = append(s.All, d)
		}
	}
	if a.All {
		s.Count = len(s.All)
	}
	return s
}

// inAll says whether a device is among all that a request with allocationMode All
// wants, also when it is not available.
func (w Why) inAll() bool {
	return w.Obstacle.Matches() || w.Obstacle == CountersOff || w.Obstacle == OperationsOff
}

// eachAlternative goes over all alternatives with what the solver knows of them.
func (n *Node) eachAlternative(do func(*Alternative, *solver.Alternative)) {
	for c := range n.Claims {
		for r := range n.Claims[c].Requests {
			for a := range n.Claims[c].Requests[r].Alternatives {
				do(&n.Claims[c].Requests[r].Alternatives[a], &n.Problem.Claims[c].Requests[r].Alternatives[a])
			}
		}
	}
}
