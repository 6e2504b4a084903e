// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// settle is how long a NIC that came back may differ from what it was before it
// was given away: its link trains, an address is probed. What differs after
// that is the truth.
const settle = 30 * time.Second

// MergedMachine is the newest machine, NICs that pods hold included. Those stand in it
// as they were when they were taken, until they are back on the host and look
// the same again: what a claim does to a NIC is no news about the hardware.
type MergedMachine struct {
	// Describe adds what others say of the machine; nil: nobody does.
	Describe func(*model.Machine) *model.Machine
	// Withhold takes NICs out of the offer, but for those that are held; nil:
	// none.
	Withhold func(m *model.Machine, held []model.NIC) *model.Machine

	mu   sync.Mutex
	scan *model.Machine
	held []model.NIC
	// back are NICs that were held, by when they must look as before.
	back []returned
	// merged is the host's own word, machine the same described.
	merged, machine *model.Machine
}

type returned struct {
	nic   model.NIC
	until time.Time
}

// Current is never nil after the first update.
func (p *MergedMachine) Current() *model.Machine {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.machine
}

// Scan is the newest scan, as it was.
func (p *MergedMachine) Scan() *model.Machine {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.scan
}

// Update takes a new scan, and the NICs of all records.
func (p *MergedMachine) Update(scan *model.Machine, held []model.NIC) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.update(scan, held)
}

// Remerge takes the NICs of all records: one was added or deleted, or a NIC has
// had its time to look as before. It comes after the first Update.
func (p *MergedMachine) Remerge(held []model.NIC) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.update(p.scan, held)
}

// Redescribe takes what others say by now. It comes after the first Update.
func (p *MergedMachine) Redescribe() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.describe()
}

// Due is when to Remerge at the latest; zero when nothing waits.
func (p *MergedMachine) Due() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	var due time.Time
	for _, b := range p.back {
		if due.IsZero() || b.until.Before(due) {
			due = b.until
		}
	}
	return due
}

func (p *MergedMachine) update(scan *model.Machine, held []model.NIC) error {
	now := time.Now()
	back := slices.Clone(p.back)
	for _, n := range p.held {
		if find(held, n) == nil {
			back = append(back, returned{nic: n, until: now.Add(settle)})
		}
	}
	back = slices.DeleteFunc(back, func(b returned) bool {
		seen := find(scan.NICs, b.nic)
		return find(held, b.nic) != nil || !now.Before(b.until) || seen != nil && looksLike(*seen, b.nic)
	})
	frozen := slices.Clone(held)
	for _, b := range back {
		frozen = append(frozen, onHost(b.nic, find(scan.NICs, b.nic)))
	}
	merged, err := inventory.Merge(scan, frozen)
	if err != nil {
		return fmt.Errorf("merge held NICs into the machine: %w", err)
	}
	p.scan, p.held, p.back, p.merged = scan, slices.Clone(held), back, merged
	p.describe()
	return nil
}

func (p *MergedMachine) describe() {
	p.machine = p.merged
	if p.Describe != nil {
		p.machine = p.Describe(p.merged)
	}
	if p.Withhold != nil {
		p.machine = p.Withhold(p.machine, p.held)
	}
}

// find returns the NIC of a list that has another one's device name, or nil.
func find(list []model.NIC, n model.NIC) *model.NIC {
	name := slicecodec.NICName(n)
	for i := range list {
		if slicecodec.NICName(list[i]) == name {
			return &list[i]
		}
	}
	return nil
}
