// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// mainTable is RT_TABLE_MAIN.
const mainTable = 254

// Values of RouteConfig.Scope (include/uapi/linux/rtnetlink.h).
const (
	scopeUniverse = 0
	scopeLink     = 253
)

// maxUint32 is the largest number of a table or metric.
const maxUint32 = 1<<32 - 1

func (c *NetworkConfig) validateRoutes(p *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, r := range c.Routes {
		e := r.validate(p.Index(i))
		if len(e) == 0 && seen[r.key()] {
			e = field.ErrorList{field.Duplicate(p.Index(i), "destination "+*r.Destination+" with the same table and metric")}
		}
		if len(e) == 0 {
			seen[r.key()] = true
		}
		errs = append(errs, e...)
	}
	return errs
}

// key is the same for two routes of which the kernel allows one only.
func (r RouteConfig) key() string {
	destination := netip.MustParsePrefix(*r.Destination).Masked()
	table := ptr.Deref(r.Table, 0)
	if table == 0 {
		table = mainTable
	}
	return fmt.Sprint(destination, table, ptr.Deref(r.Metric, 0))
}

func (c *NetworkConfig) validateRules(p *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(c.Rules) > 0 && c.Interface.VRF != nil {
		errs = append(errs, field.Forbidden(p, "a VRF brings its own rule: leave out rules or interface.vrf"))
	}
	for i, r := range c.Rules {
		errs = append(errs, r.validate(p.Index(i))...)
		if slices.ContainsFunc(c.Rules[:i], func(other RuleConfig) bool { return reflect.DeepEqual(r, other) }) {
			errs = append(errs, field.Duplicate(p.Index(i), "the same rule"))
		}
	}
	return errs
}

func (r RouteConfig) validate(p *field.Path) field.ErrorList {
	errs := slices.Concat(
		inRange(p.Child("table"), r.Table, 0, maxUint32),
		inRange(p.Child("metric"), r.Metric, 0, maxUint32),
		inRange(p.Child("mtu"), r.MTU, minMTU, maxMTU))
	var destination netip.Prefix
	if r.Destination == nil {
		errs = append(errs, field.Required(p.Child("destination"), "a prefix, such as 10.0.0.0/8"))
	} else {
		var e field.ErrorList
		destination, e = parsePrefix(p.Child("destination"), *r.Destination)
		errs = append(errs, e...)
	}
	scope := int32(scopeUniverse)
	if r.Scope != nil {
		scope = *r.Scope
	}
	switch {
	case scope != scopeUniverse && scope != scopeLink:
		errs = append(errs, field.Invalid(p.Child("scope"), scope, "want 0 (universe) or 253 (link)"))
	case scope == scopeUniverse && r.Gateway == nil:
		errs = append(errs, field.Required(p.Child("gateway"), "an address, unless scope is 253 (link)"))
	case scope == scopeLink && is(r.OnLink, true):
		errs = append(errs, field.Forbidden(p.Child("onlink"), "a route of scope 253 (link) has no gateway to reach: leave out scope"))
	}
	if r.MTU != nil && *r.MTU < minMTUIPv6 && destination.IsValid() && destination.Addr().Is6() {
		errs = append(errs, field.Invalid(p.Child("mtu"), *r.MTU, "want at least 1280, the least of IPv6"))
	}
	return slices.Concat(errs,
		checkIP(p.Child("gateway"), r.Gateway, destination),
		checkIP(p.Child("source"), r.Source, destination))
}

func (r RuleConfig) validate(p *field.Path) field.ErrorList {
	errs := slices.Concat(
		inRange(p.Child("priority"), r.Priority, 0, 32767),
		inRange(p.Child("table"), r.Table, 1, maxUint32))
	if r.Table == nil {
		errs = append(errs, field.Required(p.Child("table"), "the table to look into"))
	}
	var both []netip.Prefix
	for _, f := range []struct {
		name string
		text *string
	}{{"source", r.Source}, {"destination", r.Destination}} {
		if f.text == nil {
			continue
		}
		prefix, e := parsePrefix(p.Child(f.name), *f.text)
		errs = append(errs, e...)
		if len(e) == 0 {
			both = append(both, prefix)
		}
	}
	if len(both) == 2 && both[0].Addr().Is4() != both[1].Addr().Is4() {
		errs = append(errs, field.Invalid(p.Child("destination"), *r.Destination, "want the same family as source "+*r.Source))
	}
	return errs
}

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
