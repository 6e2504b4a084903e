// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"slices"

	"plumbline.dev/plumbline/internal/model"
)

// Merge returns the machine with the NICs that pods hold as they were when they were
// taken. A held NIC replaces the one of the scan with the same PCI address and port, or
// without those with the same permanent address or name. Neither argument is changed.
func Merge(m *model.Machine, held []model.NIC) (*model.Machine, error) {
	if len(held) == 0 {
		return m, nil
	}
	free := slices.DeleteFunc(slices.Clone(m.NICs), func(n model.NIC) bool {
		return slices.ContainsFunc(held, func(h model.NIC) bool { return sameNIC(n, h) })
	})
	held = slices.Clone(held)
	for i := range held {
		if n := held[i].NUMANode; n != nil && m.NUMANode(*n) == nil {
			held[i].NUMANode = nil // the node went offline; the NIC is still held
		}
	}
	merged, err := model.New(model.Machine{
		Name:         m.Name,
		Architecture: m.Architecture,
		NUMANodes:    slices.Clone(m.NUMANodes),
		CPUs:         slices.Clone(m.CPUs),
		Roots:        slices.Clone(m.Roots),
		Functions:    slices.Clone(m.Functions),
		NICs:         slices.Concat(free, held),
		GPUs:         slices.Clone(m.GPUs),
	})
	if err != nil {
		return nil, fmt.Errorf("add the NICs that pods hold: %w", err)
	}
	return merged, nil
}

// sameNIC says whether two descriptions are of one NIC. The interface's name is
// compared only for lack of anything better, since it changes with each move.
func sameNIC(a, b model.NIC) bool {
	switch {
	case a.PCI != nil && b.PCI != nil:
		return *a.PCI == *b.PCI && equal(a.Port, b.Port)
	case a.PCI != nil || b.PCI != nil:
		return false
	case a.Interface != nil && b.Interface != nil:
		if x, y := a.Interface.PermanentMAC, b.Interface.PermanentMAC; x != nil && y != nil {
			return *x == *y
		}
		return a.Interface.Name == b.Interface.Name
	case a.RDMA != nil && b.RDMA != nil:
		return a.RDMA.Name == b.RDMA.Name
	}
	return false
}

func equal(a, b *string) bool {
	return a == b || a != nil && b != nil && *a == *b
}
