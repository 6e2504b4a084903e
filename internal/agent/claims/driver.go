// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/model"
)

// Driver is one DRA driver as the agent sees it: what it can plan, and
// which of the two other halves it has.
type Driver struct {
	driver.Planner
	// Attacher is nil where nothing goes into a network namespace.
	Attacher driver.Attacher
	// Pinner is nil where nothing is pinned.
	Pinner driver.Pinner
	// HeldNICs are the NICs of a record as they were before they left the
	// host; nil for drivers without NICs.
	HeldNICs func(driver.Record) ([]model.NIC, error)
	// Close is nil where nothing is open.
	Close func()
}

// NeedsRuntime says whether a claim of the driver is only kept by NRI hooks.
func (d Driver) NeedsRuntime() bool { return d.Attacher != nil || d.Pinner != nil }
