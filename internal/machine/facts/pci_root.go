// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"fmt"
	"regexp"
	"strconv"
)

var rootPattern = regexp.MustCompile(`^pci([0-9a-f]{4,8}):([0-9a-f]{2})$`)

// RootNumbers splits "pci0000:8c" into domain and bus.
func RootNumbers(name string) (domain uint32, bus uint8, ok bool) {
	m := rootPattern.FindStringSubmatch(name)
	if m == nil {
		return 0, 0, false
	}
	d, _ := strconv.ParseUint(m[1], 16, 32)
	b, _ := strconv.ParseUint(m[2], 16, 8)
	return uint32(d), uint8(b), RootName(uint32(d), uint8(b)) == name
}

// RootName is the name of a root bus, such as "pci0000:8c".
func RootName(domain uint32, bus uint8) string { return fmt.Sprintf("pci%04x:%02x", domain, bus) }
