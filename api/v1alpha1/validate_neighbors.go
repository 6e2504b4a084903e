// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func (c *NetworkConfig) validateNeighbors(p *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[netip.Addr]bool{}
	for i, n := range c.Neighbors {
		e := n.validate(p.Index(i))
		errs = append(errs, e...)
		if len(e) > 0 {
			continue
		}
		text, spelling := n.Address()
		if ip := netip.MustParseAddr(text); seen[ip] {
			errs = append(errs, field.Duplicate(p.Index(i).Child(spelling), text))
		} else {
			seen[ip] = true
		}
	}
	return errs
}

// Address is the neighbour's address in whichever spelling it has, and the
// spelling's name.
func (n NeighborConfig) Address() (text, fieldName string) {
	if n.IPAddress != nil {
		return *n.IPAddress, "ipAddress"
	}
	return ptr.Deref(n.Destination, ""), "destination"
}

func (n NeighborConfig) validate(p *field.Path) field.ErrorList {
	errs := slices.Concat(
		checkIP(p.Child("ipAddress"), n.IPAddress, netip.Prefix{}),
		checkIP(p.Child("destination"), n.Destination, netip.Prefix{}),
		checkMAC(p.Child("hardwareAddr"), n.HardwareAddr))
	switch {
	case n.IPAddress == nil && n.Destination == nil:
		errs = append(errs, field.Required(p.Child("ipAddress"), "the neighbour's address"))
	case n.IPAddress != nil && n.Destination != nil && *n.IPAddress != *n.Destination:
		errs = append(errs, field.Invalid(p.Child("destination"), *n.Destination, "is the other spelling of ipAddress: leave one out"))
	}
	if n.HardwareAddr == nil {
		errs = append(errs, field.Required(p.Child("hardwareAddr"), "the neighbour's hardware address"))
	}
	return errs
}
