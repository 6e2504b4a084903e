// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"fmt"
	"strings"
)

// UnknownError says that an interface lacks features or flags.
type UnknownError struct {
	// What is "feature" or "private flag".
	What string
	// Names are those it lacks, Known all that it has, both sorted.
	Names, Known []string
}

// Error names both.
func (e *UnknownError) Error() string {
	known := "it has none"
	if len(e.Known) > 0 {
		known = "it has " + strings.Join(e.Known, ", ")
	}
	return fmt.Sprintf("the interface has no %s %s: %s", e.What, quoted(e.Names), known)
}

// FixedError says that features are other than wanted and cannot be changed.
type FixedError struct {
	// Names are sorted.
	Names []string
}

// Error names them.
func (e *FixedError) Error() string {
	return fmt.Sprintf("the driver does not let feature %s be changed", quoted(e.Names))
}

// NotTakenError says that the kernel took a request, and did not carry it out.
type NotTakenError struct {
	Interface string
	// What is "feature" or "private flag", and Names those that are not as
	// wanted, sorted.
	What  string
	Names []string
}

// Error names them.
func (e *NotTakenError) Error() string {
	return fmt.Sprintf("interface %q: the kernel did not set %s %s: another setting may keep it from acting",
		e.Interface, e.What, quoted(e.Names))
}

func quoted(names []string) string { return `"` + strings.Join(names, `", "`) + `"` }
