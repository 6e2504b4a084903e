// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package openat2

import "errors"

// Beneath is Linux's alone.
func Beneath(int, string, uint64) (int, error) { return -1, errors.ErrUnsupported }

// Unsupported tells that there is no such system call.
func Unsupported(err error) bool { return errors.Is(err, errors.ErrUnsupported) }
