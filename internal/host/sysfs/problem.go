// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysfs

import "fmt"

// Problem is one thing below /sys that could not be used, and why.
type Problem struct {
	// Path is the file or directory below /sys.
	Path string
	// Err says what is wrong with it.
	Err error
}

// String is one line for a log or a person.
func (p Problem) String() string { return fmt.Sprintf("%s: %v", p.Path, p.Err) }
