// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostreport

import (
	"reflect"
	"slices"
	"sync"

	"k8s.io/utils/ptr"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/model"
)

// gpuMemory is the check that says whether NICs reach the memory of GPUs.
const gpuMemory = "dma-buf"

// Offer is what the checks of a host say of the NICs that it offers. It is safe for
// concurrent use.
type Offer struct {
	changed chan struct{}

	mu     sync.Mutex
	looked bool
	// seen is what the last look found. It is told when the next one finds the same,
	// for each change is a write; what the first one finds is told at once, so that
	// a start of the agent is no change.
	seen, told offered
}

type offered struct {
	gpuDirect *bool
}

// NewOffer returns an Offer that knows of nothing yet.
func NewOffer() *Offer { return &Offer{changed: make(chan struct{}, 1)} }

// Changed has a value when there is something else to say than before.
func (o *Offer) Changed() <-chan struct{} { return o.changed }

// Looked takes a report.
func (o *Offer) Looked(r hosts.Report) {
	o.mu.Lock()
	defer o.mu.Unlock()
	found := offered{gpuDirect: gpuDirect(r)}
	settled := !o.looked || reflect.DeepEqual(found, o.seen)
	o.seen, o.looked = found, true
	if !settled || reflect.DeepEqual(found, o.told) {
		return
	}
	o.told = found
	select {
	case o.changed <- struct{}{}:
	default: // one is pending, and covers this change too
	}
}

// Describe is a machine whose NICs say what is known of them, those that pods hold
// included: the way to the GPUs' memory is the host's, wherever a NIC is.
func (o *Offer) Describe(m *model.Machine) *model.Machine {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.told.gpuDirect == nil {
		return m
	}
	described := *m
	described.NICs = slices.Clone(m.NICs)
	for i, n := range described.NICs {
		// Those that the check is about; a stand-in is on no host with GPUs.
		if n.PCI != nil && n.RDMA != nil && !n.RDMA.Software && n.Simulated == nil {
			described.NICs[i].GPUDirect = ptr.To(*o.told.gpuDirect)
		}
	}
	return &described
}

// gpuDirect is nil where the host has no GPU or no NIC for the check to be about, and
// where it cannot tell. What is right is in a report by the absence of a finding.
func gpuDirect(r hosts.Report) *bool {
	if !slices.Contains(r.Checks, gpuMemory) {
		return nil
	}
	i := slices.IndexFunc(r.Findings, func(f hosts.Finding) bool { return f.Check == gpuMemory })
	switch {
	case i < 0:
		return ptr.To(true)
	case r.Findings[i].Verdict == hosts.Wrong:
		return ptr.To(false)
	}
	return nil
}
