// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

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
