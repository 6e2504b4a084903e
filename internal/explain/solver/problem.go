// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package solver

// Fit is what the allocator makes of a device when a request comes to it.
type Fit uint8

// Fits.
const (
	// No device for the request: it does not match, or is not free.
	No Fit = iota
	// Yes, unless something placed before is in the way.
	Yes
	// Late is No that is found out only after the constraints have been asked.
	Late
	// Abort ends the whole search with an error, unless the device has been
	// taken on the way: its selector cannot be evaluated.
	Abort
)

// Problem is what is to be allocated together on a node: the claims of a pod.
type Problem struct {
	// Devices are those of the node in the order in which the allocator looks at
	// them.
	Devices []Device
	// Counters is how much of each counter is free.
	Counters []int64
	Claims   []Claim
	// MaxResults is the most devices that a claim can have.
	MaxResults int
}

// Device is a device of the node.
type Device struct {
	// Shared says that several requests can have it, as far as Free goes.
	Shared bool
	// Free is how much of each of its capacities is free, of a shared device.
	// Less than nothing means that more was given away than there is.
	Free []int64
	// Takes are the counters that it consumes when it is allocated.
	Takes []Take
	// CountersHeld says that somebody has a share of it already, who paid for
	// its counters.
	CountersHeld bool
}

// Take is an amount of a counter.
type Take struct {
	// Counter is an index of Problem.Counters.
	Counter int
	Amount  int64
}

// Claim is a claim without allocation.
type Claim struct {
	Requests    []Request
	Constraints []Constraint
}

// Request is met by one of its alternatives, in their order.
type Request struct{ Alternatives []Alternative }

// Alternative is a request for devices, or a subrequest.
type Alternative struct {
	// Invalid says that the allocator refuses to begin.
	Invalid bool
	// Count is how many devices it wants.
	Count int
	// WantsAll says that it wants exactly the devices of All, which are Count.
	WantsAll bool
	All      []int
	// Admin looks at devices that others have.
	Admin bool
	// Fit says it for each device.
	Fit []Fit
	// Needs is what it takes of the capacities of each shared device; nil for
	// the others.
	Needs [][]int64
}

// Constraint compares the values of an attribute.
type Constraint struct {
	// Invalid says that the allocator refuses to begin.
	Invalid bool
	// Distinct wants no two equal values, else all have to be equal.
	Distinct bool
	// Applies says it for each request of the claim and each alternative of it.
	Applies [][]bool
	// Values are those of each device.
	Values []Value
}

// ValueKind is a kind of attribute values.
type ValueKind uint8

// Kinds of values.
const (
	// Absent: the device does not have the attribute, so it meets no constraint.
	Absent ValueKind = iota
	// Scalar is one value.
	Scalar
	// Set is a list of values, any of which may be the common one. Where a
	// problem has sets, single values are sets of one.
	Set
	// Odd is what the allocator cannot compare: a list where lists are not
	// enabled. It can stand alone only.
	Odd
)

// Value is the value of an attribute: equal numbers are equal values of equal
// type.
type Value struct {
	Kind ValueKind
	ID   int
	// IDs are those of a set, sorted.
	IDs []int
}

// Member is a request or a constraint.
type Member struct {
	Claim int
	// Index is that of the request, or that of the constraint.
	Index      int
	Constraint bool
}

// Members lists the requests and constraints, claim by claim: the requests of
// one, then its constraints.
func (p *Problem) Members() []Member {
	var all []Member
	for c, claim := range p.Claims {
		for r := range claim.Requests {
			all = append(all, Member{Claim: c, Index: r})
		}
		for k := range claim.Constraints {
			all = append(all, Member{Claim: c, Index: k, Constraint: true})
		}
	}
	return all
}
