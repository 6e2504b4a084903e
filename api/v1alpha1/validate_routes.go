// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Values of RouteConfig.Scope (include/uapi/linux/rtnetlink.h).
const (
	scopeUniverse = 0
	scopeLink     = 253
)

// maxUint32 is the largest number of a table or metric.
const maxUint32 = 1<<32 - 1

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

// checkIP wants an address of the same family as a prefix, if that is valid.
func checkIP(p *field.Path, text *string, beside netip.Prefix) field.ErrorList {
	if text == nil {
		return nil
	}
	ip, err := netip.ParseAddr(*text)
	if err != nil || ip.Zone() != "" || ip.Is4In6() {
		return field.ErrorList{field.Invalid(p, *text, "want an address, such as 10.0.0.1")}
	}
	if beside.IsValid() && ip.Is4() != beside.Addr().Is4() {
		return field.ErrorList{field.Invalid(p, *text, "want an address of the same family as "+beside.String())}
	}
	return nil
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

func (v *VRFConfig) validate(p *field.Path) field.ErrorList {
	errs := checkInterfaceName(p.Child("name"), v.Name)
	if v.Name == nil {
		errs = append(errs, field.Required(p.Child("name"), "the VRF's name"))
	}
	// 253-255 are the tables default, main and local.
	errs = append(errs, inRange(p.Child("table"), v.Table, 1, maxUint32)...)
	if v.Table != nil && *v.Table >= 253 && *v.Table <= 255 {
		errs = append(errs, field.Invalid(p.Child("table"), *v.Table, "is a table of the system: want another"))
	}
	return errs
}
