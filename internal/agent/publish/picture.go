// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"fmt"
	"slices"
	"sync"

	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// Picture is the newest machine, NICs that pods hold included.
type Picture struct {
	mu      sync.Mutex
	machine *model.Machine
	held    []model.NIC
}

// Current is never nil after the first update.
func (p *Picture) Current() *model.Machine {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.machine
}

// Update takes a new scan. NICs held until now stay as they were for one more
// picture: the scan may have looked while they were on their way back.
func (p *Picture) Update(scan *model.Machine, held []model.NIC) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	merged, err := inventory.Merge(scan, union(held, p.held))
	if err != nil {
		return fmt.Errorf("merge held NICs into the machine: %w", err)
	}
	p.machine, p.held = merged, held
	return nil
}

// union is a, and what of b is not in it.
func union(a, b []model.NIC) []model.NIC {
	all := slices.Clone(a)
	for _, n := range b {
		same := func(other model.NIC) bool { return slicecodec.NICName(other) == slicecodec.NICName(n) }
		if !slices.ContainsFunc(all, same) {
			all = append(all, n)
		}
	}
	return all
}
