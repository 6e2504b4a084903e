// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package solver

import (
	"encoding/binary"
	"slices"
)

// Fit is what the allocator makes of a device when a request comes to it.
type Fit uint8

// Fits.
const (
	// No device for the request: it does not match, or is not free.
	No Fit = iota
	// Yes, unless another request has it, or a constraint refuses it.
	Yes
	// RejectedLate is No, which the allocator finds only after it has checked the
	// constraints, as for a shared device with too little capacity left.
	RejectedLate
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
	// ConsumesCounters is what it consumes of counters when it is allocated.
	ConsumesCounters []CounterConsumption
	// CountersHeld says that a share of it is held already, and with it the
	// counters.
	CountersHeld bool
}

// CounterConsumption is an amount of a shared counter (KEP-4815).
type CounterConsumption struct {
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
	// Values are those of each device, as it publishes them.
	Values []Value
	// Derived are those that requests derive from each device, by request of the claim
	// and alternative: nil for an alternative that derives none, which has Values. It is
	// nil where none of the claim does.
	Derived [][][]Value
}

// value is what the constraint compares of a device for an alternative of a request.
func (c *Constraint) value(r, a, d int) Value {
	if c.Derived != nil {
		if own := c.Derived[r][a]; own != nil {
			return own[d]
		}
	}
	return c.Values[d]
}

// hasIncomparable says whether any device has a value for it that is Incomparable.
func (c *Constraint) hasIncomparable() bool {
	has := func(values []Value) bool {
		return slices.ContainsFunc(values, func(v Value) bool { return v.Kind == Incomparable })
	}
	return has(c.Values) || slices.ContainsFunc(c.Derived, func(ofRequest [][]Value) bool { return slices.ContainsFunc(ofRequest, has) })
}

// appendValues appends what devices have under the constraint for any request.
func (c *Constraint) appendValues(key []byte, devices ...int) []byte {
	for _, d := range devices {
		key = c.Values[d].append(key)
	}
	for r := range c.Derived {
		key = c.appendDerived(key, r, devices...)
	}
	return key
}

// appendDerived appends what a request derives from devices.
func (c *Constraint) appendDerived(key []byte, r int, devices ...int) []byte {
	if c.Derived == nil {
		return key
	}
	for _, own := range c.Derived[r] {
		if own == nil {
			key = append(key, 0)
			continue
		}
		key = append(key, 1)
		for _, d := range devices {
			key = own[d].append(key)
		}
	}
	return key
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
	// Incomparable is what the allocator cannot compare: a list where
	// DRAListTypeAttributes is off. A constraint takes such a device only as its first.
	Incomparable
	// Underivable is what cannot be derived from the device: the allocator that comes to
	// compare it ends its search with an error.
	Underivable
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

// Key is a canonical encoding: equal problems have equal keys, and an answer for one
// is an answer for the other, device by device.
func (p *Problem) Key() string {
	w := keyWriter{}
	w.numbers(int64(p.MaxResults), int64(len(p.Devices)))
	for _, d := range p.Devices {
		w.flags(d.Shared, d.CountersHeld)
		w.list(d.Free)
		w.numbers(int64(len(d.ConsumesCounters)))
		for _, t := range d.ConsumesCounters {
			w.numbers(int64(t.Counter), t.Amount)
		}
	}
	w.list(p.Counters)
	all := p.allDevices()
	w.numbers(int64(len(p.Claims)))
	for _, c := range p.Claims {
		w.numbers(int64(len(c.Requests)), int64(len(c.Constraints)))
		for _, r := range c.Requests {
			w.numbers(int64(len(r.Alternatives)))
			for _, a := range r.Alternatives {
				w.alternative(&a)
			}
		}
		for _, k := range c.Constraints {
			w.flags(k.Invalid, k.Distinct, k.Derived != nil)
			for _, applies := range k.Applies {
				w.flags(applies...)
			}
			w.key = k.appendValues(w.key, all...)
		}
	}
	return string(w.key)
}

// allDevices are the indices of the devices.
func (p *Problem) allDevices() []int {
	all := make([]int, len(p.Devices))
	for d := range all {
		all[d] = d
	}
	return all
}

type keyWriter struct{ key []byte }

func (w *keyWriter) numbers(all ...int64) {
	for _, n := range all {
		w.key = binary.AppendVarint(w.key, n)
	}
}

func (w *keyWriter) list(all []int64) {
	w.numbers(int64(len(all)))
	w.numbers(all...)
}

func (w *keyWriter) flags(all ...bool) {
	for _, is := range all {
		if is {
			w.key = append(w.key, 1)
		} else {
			w.key = append(w.key, 0)
		}
	}
}

func (w *keyWriter) alternative(a *Alternative) {
	w.flags(a.Invalid, a.WantsAll, a.Admin)
	w.numbers(int64(a.Count), int64(len(a.All)))
	for _, d := range a.All {
		w.numbers(int64(d))
	}
	for _, fit := range a.Fit {
		w.key = append(w.key, byte(fit))
	}
	for _, needs := range a.Needs {
		w.list(needs)
	}
}
