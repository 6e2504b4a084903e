// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package fixes

import (
	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/explain/reason"
)

// gates switches one feature gate on.
func (f *finder) gates() {
	if f.cause != reason.GateOff && f.cause != reason.ListAttribute {
		return
	}
	for _, name := range []string{
		allocation.GateConsumableCapacity, allocation.GatePrioritizedList, allocation.GateAdminAccess, allocation.GatePartitionable,
		allocation.GateBindingConditions, allocation.GateNodeOperations, allocation.GateListAttributes,
		allocation.GateDerivedAttributes,
	} {
		on, err := allocation.OverrideGates(f.a.Cluster.Gates, f.a.Cluster.Minor, name+"=true")
		if err != nil || on == f.a.Cluster.Gates {
			continue
		}
		if f.propose(EnableGate, "switch feature gate "+name+" on, in the API server and the scheduler",
			Trial{Cluster: f.a.Cluster.WithGates(on), Node: f.a.Node.Node.Name, Claims: f.claims}) {
			return
		}
	}
}
