// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/agent/hostpolicies"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev"
)

// knowsDriver: the driver is in this program.
const knowsDriver = true

// checkTogether is the driver's own verdict on the NICs of one pod: an error for each
// that cannot be had beside those before it.
func checkTogether(nics []driver.Allocation) []error { return netdev.CheckParameters(nics) }

// policyMistakes is the agent's own verdict on a HostPolicy.
func policyMistakes(p *hosts.HostPolicy) error { return hostpolicies.Mistakes(p) }
