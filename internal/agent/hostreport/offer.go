// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostreport

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/utils/ptr"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// Checks that say something of the NICs that are offered.
const (
	gpuMemory   = "dma-buf"
	rdmaModules = "rdma-modules"
	rdmaDevices = "rdma-devices"
	rdmaPorts   = "rdma-ports"
)

// Offer is what the checks of a host say of the NICs that it offers. It is safe for
// concurrent use.
type Offer struct {
	changed chan struct{}
	faults  bool

	mu     sync.Mutex
	looked bool
	// seen is what the last look found. It is told when the next one finds the same,
	// for each change is a write; what the first one finds is told at once, so that
	// a start of the agent is no change.
	seen, told offered
}

type offered struct {
	gpuDirect *bool
	// faults are by device name.
	faults map[string][]model.Fault
}

// NewOffer returns an Offer that knows of nothing yet. It has faults only where it is
// told to.
func NewOffer(faults bool) *Offer {
	return &Offer{changed: make(chan struct{}, 1), faults: faults, told: offered{faults: map[string][]model.Fault{}}}
}

// Changed has a value when there is something else to say than before.
func (o *Offer) Changed() <-chan struct{} { return o.changed }

// Looked takes a report on a machine, of whose NICs pods hold some.
func (o *Offer) Looked(r hosts.Report, m *model.Machine, held []model.NIC) {
	o.mu.Lock()
	defer o.mu.Unlock()
	found := offered{gpuDirect: gpuDirect(r), faults: map[string][]model.Fault{}}
	if o.faults {
		found.faults = faultsOf(r, m)
		// Nobody sees them on the host while pods hold them: what was so stays.
		for _, n := range held {
			name := slicecodec.NICName(n)
			delete(found.faults, name)
			if was, faulty := o.told.faults[name]; faulty {
				found.faults[name] = was
			}
		}
	}
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

// AddFaults adds the faults that checks of the host found to others, by device name.
func (o *Offer) AddFaults(to map[string][]model.Fault) map[string][]model.Fault {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := maps.Clone(to)
	if all == nil {
		all = map[string][]model.Fault{}
	}
	for name, faults := range o.told.faults {
		all[name] = slices.Concat(all[name], faults)
	}
	return all
}

// faultsOf are what keeps single NICs from working.
func faultsOf(r hosts.Report, m *model.Machine) map[string][]model.Fault {
	all := map[string][]model.Fault{}
	for _, n := range m.NICs {
		if n.PCI == nil || n.RDMA == nil || n.Port != nil { // a second port is not looked at
			continue
		}
		kinds := map[model.FaultKind]bool{}
		for _, f := range r.Findings {
			address, _, _ := strings.Cut(f.Subject, " ")
			if address == n.PCI.String() && f.Verdict == hosts.Wrong {
				kinds[faultOf(f, n, r, m)] = true
			}
		}
		delete(kinds, "")
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			name := slicecodec.NICName(n)
			all[name] = append(all[name], model.Fault{Kind: kind})
		}
	}
	return all
}

// faultOf is the fault of a NIC that a finding means; empty where it means none: what is
// a setting, or slow, is in the report and in claims. docs/decisions/2026-11-23-taints-of-host-checks.md
// says why of each check.
func faultOf(f hosts.Finding, n model.NIC, r hosts.Report, m *model.Machine) model.FaultKind {
	switch {
	case f.Check == rdmaPorts && carriesNothing(n, m):
		return model.FaultRDMAPort
	case f.Check == rdmaDevices && !slices.ContainsFunc(r.Findings, func(f hosts.Finding) bool { return f.Check == rdmaModules }):
		return model.FaultRDMAFiles // with the modules wrong it is the host's
	}
	return ""
}

// carriesNothing says whether an RDMA port that is not active should be. That of a
// virtual function on InfiniBand waits for an administrator, and on Ethernet the port is
// down with an interface that is down: where that lost its carrier there is a fault
// already.
func carriesNothing(n model.NIC, m *model.Machine) bool {
	switch ptr.Deref(n.RDMA.LinkLayer, "") {
	case "InfiniBand":
		f := m.Function(*n.PCI)
		return f != nil && f.PhysicalFunction == nil
	case "Ethernet":
		i := n.Interface
		return i != nil && ptr.Deref(i.Up, false) && ptr.Deref(i.State, "") == "up"
	}
	return false
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
