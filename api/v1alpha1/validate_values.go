// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxText bounds a text that names something of the cloud's.
const maxText = 253

func checkLength(p *field.Path, text *string) field.ErrorList {
	if text == nil || len(*text) <= maxText {
		return nil
	}
	return field.ErrorList{field.TooLong(p, "", maxText)}
}

func oneOf(p *field.Path, v *string, allowed ...string) field.ErrorList {
	if v == nil || slices.Contains(allowed, *v) {
		return nil
	}
	return field.ErrorList{field.NotSupported(p, *v, allowed)}
}

func inRange[T int32 | int64](p *field.Path, v *T, low, high int64) field.ErrorList {
	if v == nil || low <= int64(*v) && int64(*v) <= high {
		return nil
	}
	return field.ErrorList{field.Invalid(p, *v, fmt.Sprintf("want %d-%d", low, high))}
}

// is tells whether an optional value is set and equal to v.
func is[T comparable](p *T, v T) bool { return p != nil && *p == v }

// checkStationMAC refuses an Ethernet address that is a group's or zero
// (is_valid_ether_addr, include/linux/etherdevice.h).
func checkStationMAC(p *field.Path, text *string) field.ErrorList {
	errs := checkMAC(p, text)
	if text == nil || len(errs) > 0 {
		return errs
	}
	const ethernet = 6
	mac, _ := net.ParseMAC(*text)
	if len(mac) == ethernet && (mac[0]&1 != 0 || !slices.ContainsFunc(mac, func(b byte) bool { return b != 0 })) {
		return field.ErrorList{field.Invalid(p, *text, "want the address of one station: the first octet even, not all zero")}
	}
	return nil
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

// parsePrefix reads an address with prefix length, such as 10.0.0.2/24: without a zone,
// and no IPv4-mapped IPv6 address.
func parsePrefix(p *field.Path, text string) (netip.Prefix, field.ErrorList) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil || prefix.Addr().Is4In6() {
		return netip.Prefix{}, field.ErrorList{field.Invalid(p, text, "want an address with prefix length, such as 10.0.0.2/24")}
	}
	return prefix, nil
}

// checkIP refuses an address that is not of the family of a valid prefix.
func checkIP(p *field.Path, text *string, beside netip.Prefix) field.ErrorList {
	if text == nil {
		return nil
	}
	ip, err := netip.ParseAddr(*text)
	if err != nil || ip.Zone() != "" || ip.Is4In6() || ip.IsUnspecified() || ip.IsMulticast() {
		return field.ErrorList{field.Invalid(p, *text, "want the address of one station, such as 10.0.0.1")}
	}
	if beside.IsValid() && ip.Is4() != beside.Addr().Is4() {
		return field.ErrorList{field.Invalid(p, *text, "want an address of the same family as "+beside.String())}
	}
	return nil
}

// maxInterfaceName is IFNAMSIZ without the ending zero.
const maxInterfaceName = 15

// maxFlagName is ETH_GSTRING_LEN without the ending zero
// (include/uapi/linux/ethtool.h).
const maxFlagName = 31

// CheckInterfaceName refuses what must not become an interface's name: more
// than the kernel refuses, since the name becomes part of paths and messages.
func CheckInterfaceName(name string) error {
	if errs := checkInterfaceName(field.NewPath("name"), &name); len(errs) > 0 {
		return fmt.Errorf("interface name %q: %s", name, errs[0].Detail)
	}
	return nil
}

func checkInterfaceName(p *field.Path, name *string) field.ErrorList {
	const want = "want 1-15 letters, digits, '-', '_' and '.', not only dots"
	switch {
	case name == nil:
		return nil
	case *name == "" || len(*name) > maxInterfaceName || strings.Trim(*name, ".") == "",
		strings.ContainsFunc(*name, func(r rune) bool { return !isNameRune(r) }):
		return field.ErrorList{field.Invalid(p, *name, want)}
	// The kernel's "all" and "default" are directories of sysctls beside the
	// interfaces' own; lo is every namespace's.
	case slices.Contains([]string{"all", "default", "lo"}, *name):
		return field.ErrorList{field.Invalid(p, *name, "is a name of the system: want another")}
	}
	return nil
}

func isNameRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_.", r)
}

func checkFlagNames(p *field.Path, flags map[string]bool) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		if name == "" || len(name) > maxFlagName || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
			errs = append(errs, field.Invalid(p.Key(name), name, "want a name as ethtool prints it, of 1-31 visible ASCII characters"))
		}
	}
	return errs
}
