// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Values of InterfaceConfig.Type.
const (
	TypePassthrough = "passthrough"
	TypeMacvlan     = "macvlan"
	TypeIPvlan      = "ipvlan"
	TypeVLAN        = "vlan"
)

// Values of InterfaceConfig.Addressing.
const (
	AddressingStatic     = "static"
	AddressingDHCP       = "dhcp"
	AddressingUnnumbered = "unnumbered"
)

func (c *InterfaceConfig) validate(p *field.Path) field.ErrorList {
	errs := slices.Concat(
		checkInterfaceName(p.Child("name"), c.Name),
		oneOf(p.Child("type"), c.Type, TypePassthrough, TypeMacvlan, TypeIPvlan, TypeVLAN),
		oneOf(p.Child("addressing"), c.Addressing, AddressingStatic, AddressingDHCP, AddressingUnnumbered),
		inRange(p.Child("vlanID"), c.VLANID, 1, 4094),
		inRange(p.Child("mtu"), c.MTU, minMTU, maxMTU),
		checkStationMAC(p.Child("hardwareAddr"), c.HardwareAddr),
		inRange(p.Child("gsoMaxSize"), c.GSOMaxSize, 1, maxOffload),
		inRange(p.Child("groMaxSize"), c.GROMaxSize, 1, maxOffload),
		inRange(p.Child("gsoIPv4MaxSize"), c.GSOIPv4MaxSize, 1, maxOffload),
		inRange(p.Child("groIPv4MaxSize"), c.GROIPv4MaxSize, 1, maxOffload),
		inRange(p.Child("arpAnnounce"), c.ARPAnnounce, 0, 2),
	)
	if c.ARPIgnore != nil && *c.ARPIgnore != 8 && len(inRange(p, c.ARPIgnore, 0, 3)) > 0 {
		errs = append(errs, field.Invalid(p.Child("arpIgnore"), *c.ARPIgnore, "want 0, 1, 2, 3 or 8"))
	}
	if c.VRF != nil {
		errs = append(errs, c.VRF.validate(p.Child("vrf"))...)
		if c.VRF.Name != nil && c.Name != nil && *c.VRF.Name == *c.Name {
			errs = append(errs, field.Invalid(p.Child("vrf", "name"), *c.VRF.Name, "is the interface's own name: want another"))
		}
	}
	if c.VF != nil {
		errs = append(errs, c.VF.validate(p.Child("vf"))...)
	}
	return slices.Concat(errs, c.validateAddresses(p), c.validateAddressing(p), c.validateType(p))
}

func (c *InterfaceConfig) validateAddresses(p *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[netip.Addr]bool{}
	small := c.MTU != nil && *c.MTU >= minMTU && *c.MTU < minMTUIPv6
	for i, text := range c.Addresses {
		at := p.Child("addresses").Index(i)
		prefix, e := parsePrefix(at, text)
		errs = append(errs, e...)
		if len(e) > 0 {
			continue
		}
		address := prefix.Addr()
		if seen[address] {
			errs = append(errs, field.Duplicate(at, text))
		}
		seen[address] = true
		if address.IsUnspecified() || address.IsMulticast() {
			errs = append(errs, field.Invalid(at, text, "want the address of one station"))
		}
		if small && address.Is6() {
			small = false
			errs = append(errs, field.Invalid(p.Child("mtu"), *c.MTU, "want at least 1280, the least of IPv6, beside address "+text))
		}
	}
	return errs
}

// validateAddressing checks that the fields for addresses (addressing, addresses, dhcp,
// ipam) go together.
func (c *InterfaceConfig) validateAddressing(p *field.Path) field.ErrorList {
	var errs field.ErrorList
	dhcp := is(c.DHCP, true) || is(c.Addressing, AddressingDHCP)
	if dhcp && is(c.DHCP, false) {
		errs = append(errs, field.Invalid(p.Child("dhcp"), false, "interface.addressing says dhcp"))
	}
	if is(c.DHCP, true) && c.Addressing != nil && *c.Addressing != AddressingDHCP {
		errs = append(errs, field.Invalid(p.Child("dhcp"), true, "interface.addressing says "+*c.Addressing))
	}
	if len(c.Addresses) > 0 && (dhcp || is(c.Addressing, AddressingUnnumbered) || c.IPAM != nil) {
		errs = append(errs, field.Forbidden(p.Child("addresses"),
			"cannot be set beside dhcp, ipam or addressing: unnumbered"))
	}
	if c.IPAM != nil {
		if dhcp || is(c.Addressing, AddressingUnnumbered) {
			errs = append(errs, field.Forbidden(p.Child("ipam"), "cannot be set beside dhcp or addressing: unnumbered"))
		}
		errs = append(errs, c.IPAM.validate(p.Child("ipam"))...)
	}
	return errs
}

func (c *IPAMConfig) validate(p *field.Path) field.ErrorList {
	if c.Pool == nil {
		return field.ErrorList{field.Required(p.Child("pool"), "the pool's name")}
	}
	var errs field.ErrorList
	for _, wrong := range validation.IsDNS1123Subdomain(*c.Pool) {
		errs = append(errs, field.Invalid(p.Child("pool"), *c.Pool, wrong))
	}
	return errs
}

// validateType checks what only some types have.
func (c *InterfaceConfig) validateType(p *field.Path) field.ErrorList {
	var errs field.ErrorList
	vlan := is(c.Type, TypeVLAN)
	if vlan && c.VLANID == nil {
		errs = append(errs, field.Required(p.Child("vlanID"), "a tag of 1-4094 for type: vlan"))
	}
	if !vlan && c.VLANID != nil {
		errs = append(errs, field.Forbidden(p.Child("vlanID"), "only with type: vlan"))
	}
	switch {
	case c.Mode == nil:
	case is(c.Type, TypeMacvlan):
		errs = append(errs, oneOf(p.Child("mode"), c.Mode, "bridge", "private", "vepa", "passthru")...)
	case is(c.Type, TypeIPvlan):
		errs = append(errs, oneOf(p.Child("mode"), c.Mode, "l2", "l3", "l3s")...)
	default:
		errs = append(errs, field.Forbidden(p.Child("mode"), "only with type: macvlan or ipvlan"))
	}
	if is(c.Type, TypeIPvlan) && c.HardwareAddr != nil {
		errs = append(errs, field.Forbidden(p.Child("hardwareAddr"), "an ipvlan has the address of its NIC"))
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
