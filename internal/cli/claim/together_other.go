// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package claim

import (
	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/driver"
)

// knowsDriver: it is Linux's alone.
const knowsDriver = false

// checkTogether knows nothing. What is wrong with one NIC by itself is found all the
// same.
func checkTogether([]driver.Allocation) []error { return nil }

// policyMistakes knows nothing.
func policyMistakes(*hosts.HostPolicy) error { return nil }
