// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// PCIAddress names one PCI function: domain, bus, device and function.
type PCIAddress struct {
	Domain   uint32
	Bus      uint8
	Device   uint8 // 0-31
	Function uint8 // 0-7
}

// ParsePCIAddress reads the kernel's form of an address, such as
// "0000:8f:00.0": lower-case hexadecimal, a domain of at least four digits
// (drivers/pci/probe.c, pci_setup_device).
func ParsePCIAddress(s string) (PCIAddress, error) {
	domain, rest, _ := strings.Cut(s, ":")
	// The domain grows beyond four digits only where it has to, so that each
	// address has one spelling.
	wellFormed := len(rest) == len("8f:00.0") && rest[2] == ':' && rest[5] == '.' &&
		(len(domain) == 4 || len(domain) > 4 && domain[0] != '0')
	if wellFormed {
		d, errD := parseHex(domain, 32)
		bus, errB := parseHex(rest[:2], 8)
		device, errV := parseHex(rest[3:5], 5)
		function, errF := parseHex(rest[6:], 3)
		if errD == nil && errB == nil && errV == nil && errF == nil {
			return PCIAddress{Domain: uint32(d), Bus: uint8(bus), Device: uint8(device), Function: uint8(function)}, nil
		}
	}
	return PCIAddress{}, fmt.Errorf("parse PCI address %q: want domain:bus:device.function, such as 0000:8f:00.0", s)
}

// parseHex reads lower-case hexadecimal digits only: no sign, no prefix, no
// underscores.
func parseHex(s string, bits int) (uint64, error) {
	if strings.ToLower(s) != s {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseUint(s, 16, bits)
}

// String is the kernel's form, such as "0000:8f:00.0".
func (a PCIAddress) String() string {
	return fmt.Sprintf("%04x:%02x:%02x.%x", a.Domain, a.Bus, a.Device, a.Function)
}

// Compare orders addresses by domain, bus, device and function.
func (a PCIAddress) Compare(b PCIAddress) int {
	return cmp.Or(
		cmp.Compare(a.Domain, b.Domain),
		cmp.Compare(a.Bus, b.Bus),
		cmp.Compare(a.Device, b.Device),
		cmp.Compare(a.Function, b.Function),
	)
}

// MarshalText makes an address a string in JSON and YAML.
func (a PCIAddress) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText is ParsePCIAddress.
func (a *PCIAddress) UnmarshalText(text []byte) error {
	parsed, err := ParsePCIAddress(string(text))
	if err != nil {
		return err
	}
	*a = parsed
	return nil
}
