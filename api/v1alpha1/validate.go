// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"net"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits of the kernel: ETH_MIN_MTU, IPV6_MIN_MTU, the largest MTU of any link, and
// GSO_MAX_SIZE (include/linux/netdevice.h).
const (
	minMTU     = 68
	minMTUIPv6 = 1280
	maxMTU     = 65535
	maxOffload = 8 * 65535
)

// Validate checks a merged configuration, and returns every mistake at once.
func (c *NetworkConfig) Validate() error {
	errs := c.Interface.validate(field.NewPath("interface"))
	for i, r := range c.Routes {
		errs = append(errs, r.validate(field.NewPath("routes").Index(i))...)
	}
	rules := field.NewPath("rules")
	if len(c.Rules) > 0 && c.Interface.VRF != nil {
		errs = append(errs, field.Forbidden(rules, "a VRF brings its own rule: leave out rules or interface.vrf"))
	}
	for i, r := range c.Rules {
		errs = append(errs, r.validate(rules.Index(i))...)
	}
	for i, n := range c.Neighbors {
		errs = append(errs, n.validate(field.NewPath("neighbors").Index(i))...)
	}
	if c.Ethtool != nil {
		errs = append(errs, checkFlagNames(field.NewPath("ethtool", "features"), c.Ethtool.Features)...)
		errs = append(errs, checkFlagNames(field.NewPath("ethtool", "privateFlags"), c.Ethtool.PrivateFlags)...)
	}
	return errs.ToAggregate()
}

func (c *InterfaceConfig) validate(p *field.Path) field.ErrorList {
	errs := slices.Concat(
		checkInterfaceName(p.Child("name"), c.Name),
		oneOf(p.Child("type"), c.Type, TypePassthrough, TypeMacvlan, TypeIPvlan, TypeVLAN),
		oneOf(p.Child("addressing"), c.Addressing, AddressingStatic, AddressingDHCP, AddressingUnnumbered),
		inRange(p.Child("vlanID"), c.VLANID, 1, 4094),
		inRange(p.Child("mtu"), c.MTU, minMTU, maxMTU),
		checkMAC(p.Child("hardwareAddr"), c.HardwareAddr),
		inRange(p.Child("gsoMaxSize"), c.GSOMaxSize, 1, maxOffload),
		inRange(p.Child("groMaxSize"), c.GROMaxSize, 1, maxOffload),
		inRange(p.Child("gsoIPv4MaxSize"), c.GSOIPv4MaxSize, 1, maxOffload),
		inRange(p.Child("groIPv4MaxSize"), c.GROIPv4MaxSize, 1, maxOffload),
		inRange(p.Child("arpAnnounce"), c.ARPAnnounce, 0, 2),
	)
	if c.ARPIgnore != nil && *c.ARPIgnore != 8 && len(inRange(p, c.ARPIgnore, 0, 3)) > 0 {
		errs = append(errs, field.Invalid(p.Child("arpIgnore"), *c.ARPIgnore, "want 0, 1, 2, 3 or 8"))
	}
	for i, text := range c.Addresses {
		_, e := parsePrefix(p.Child("addresses").Index(i), text)
		errs = append(errs, e...)
	}
	if c.VRF != nil {
		errs = append(errs, c.VRF.validate(p.Child("vrf"))...)
	}
	return slices.Concat(errs, c.validateAddressing(p), c.validateType(p))
}

// validateAddressing checks the ways to addresses against each other.
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
	if c.IPAM != nil && c.IPAM.Pool == nil {
		errs = append(errs, field.Required(p.Child("ipam", "pool"), "the pool's name"))
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
	return errs
}

func checkMAC(p *field.Path, text *string) field.ErrorList {
	if text == nil {
		return nil
	}
	if _, err := net.ParseMAC(*text); err != nil {
		return field.ErrorList{field.Invalid(p, *text, "want a hardware address, such as 02:00:00:00:00:01")}
	}
	return nil
}

// parsePrefix reads an address with its length. Only what is written that way
// is taken: 10.0.0.2/24, no zone, no IPv4 in IPv6's clothes.
func parsePrefix(p *field.Path, text string) (netip.Prefix, field.ErrorList) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil || prefix.Addr().Is4In6() {
		return netip.Prefix{}, field.ErrorList{field.Invalid(p, text, "want an address with prefix length, such as 10.0.0.2/24")}
	}
	return prefix, nil
}
