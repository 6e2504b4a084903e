// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"testing"

	"k8s.io/dynamic-resource-allocation/deviceattribute"

	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/model"
)

// upstreamRoot is the pcieRoot that the helper of other drivers publishes for
// a function; nil where it refuses.
func upstreamRoot(tree *machine.Tree, a model.PCIAddress) *string {
	attribute, err := deviceattribute.GetPCIeRootAttributeByPCIBusID(a.String(), deviceattribute.WithFS(tree))
	if err != nil {
		return nil
	}
	return attribute.Value.StringValue
}

// upstreamNode is its numaNode.
func upstreamNode(tree *machine.Tree, a model.PCIAddress) *int {
	attribute, err := deviceattribute.GetNUMANodeAttributeByPCIBusID(a.String(), deviceattribute.ScalarAttribute, deviceattribute.WithFS(tree))
	if err != nil || attribute.Value.IntValue == nil {
		return nil
	}
	node := int(*attribute.Value.IntValue)
	return &node
}

// checkUpstream compares with what other drivers publish of the same tree: a constraint
// that aligns our device with theirs needs equal values.
func checkUpstream(t *testing.T, tree *machine.Tree, m *model.Machine) {
	t.Helper()
	for _, f := range m.Functions {
		var ours *string
		if root := m.Root(f.Root); root.Published {
			ours = &root.Name
		}
		if theirs := upstreamRoot(tree, f.Address); (ours == nil) != (theirs == nil) || ours != nil && *ours != *theirs {
			t.Errorf("%s: root %v, the upstream helper says %v", f.Address, ours, theirs)
		}
		// Their pattern has no room for a domain of more than four digits, ours
		// has: GB300 machines on Azure have such.
		if theirs := upstreamNode(tree, f.Address); !sameNode(f.NUMANode, theirs) && f.Address.Domain <= 0xffff {
			t.Errorf("%s: NUMA node %s, the upstream helper says %s", f.Address, node(f.NUMANode), node(theirs))
		}
	}
	for _, c := range m.CPUs {
		theirs, err := deviceattribute.GetNUMANodeForCPU(c.ID, deviceattribute.WithFS(tree))
		if err != nil || c.NUMANode == nil || *c.NUMANode != theirs {
			t.Errorf("CPU %d: NUMA node %s, the upstream helper says %d, %v", c.ID, node(c.NUMANode), theirs, err)
		}
	}
}
