// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/verify/collect"
	"plumbline.dev/plumbline/internal/verify/expect"
	"plumbline.dev/plumbline/internal/verify/nearest"
)

// Outcome is the verdict on a pod with what it was made from. How near its components
// are to each other is the other question: Nearness.
type Outcome struct {
	Verdict
	Components []Component
	Pairs      []Pair
}

// evaluator collects the findings on one pod.
type evaluator struct {
	m        *model.Machine
	expected expect.Pod
	observed collect.Pod
	findings []Finding
	// places of claimed devices, by claim and request.
	places map[string]map[string][]place
	// claimed are the PCI functions that claims of the pod have.
	claimed    map[model.PCIAddress]*expect.Device
	components []Component
}

// place is where a claimed device really is.
type place struct {
	device *expect.Device
	pci    *model.PCIAddress
	// cpus are those of a container that names the request; empty for others.
	cpus cpuset.CPUSet
}

// Pod evaluates a pod. The machine is the node's.
func Pod(m *nearest.Machine, expected expect.Pod, observed collect.Pod) Outcome {
	e := &evaluator{
		m: m.Machine, expected: expected, observed: observed,
		places: map[string]map[string][]place{}, claimed: map[model.PCIAddress]*expect.Device{},
	}
	if expected.Ended || len(expected.Containers) == 0 {
		return Outcome{Verdict: Conclude([]Finding{{
			State: StateUnknown, Code: NotRunning, What: "the pod", Why: "no container of it runs, or it is ending",
		}})}
	}
	e.readable()
	for i := range expected.Claims {
		e.claim(&expected.Claims[i])
	}
	e.lockedMemory()
	e.nothingElse()
	e.pluginGPUs()
	e.containers()
	for _, claim := range expected.Claims {
		e.constraints(claim)
	}
	e.findComponents()
	e.besidePlugins()
	return Outcome{Verdict: Conclude(e.findings), Components: e.components, Pairs: e.compared(m, pairsOf(m.Machine, e.components))}
}

func (e *evaluator) add(f Finding) { e.findings = append(e.findings, f) }

// readable says what is not known of the pod as a whole.
func (e *evaluator) readable() {
	for _, name := range e.expected.Missing {
		e.add(Finding{State: StateUnknown, Code: NotRead, Claim: name, What: "claim " + name, Why: "the API server does not have it, or it is not allocated"})
	}
	for _, container := range e.observed.Containers {
		if container.Err != nil {
			e.add(Finding{State: StateUnknown, Code: NotRead, What: "container " + container.Name, Why: container.Err.Error()})
		}
		if container.FilesErr != nil {
			e.add(Finding{State: StateUnknown, Code: NotRead, What: "device files of container " + container.Name, Why: container.FilesErr.Error()})
		}
	}
	if e.observed.Network.Err != nil && !e.expected.HostNetwork {
		e.add(Finding{State: StateUnknown, Code: NotRead, What: "network interfaces", Why: e.observed.Network.Err.Error()})
	}
}

func (e *evaluator) setPlace(claim string, p place) {
	if e.places[claim] == nil {
		e.places[claim] = map[string][]place{}
	}
	e.places[claim][p.device.Request] = append(e.places[claim][p.device.Request], p)
}

// expectedContainer finds what is expected of a container; nil for none.
func (e *evaluator) expectedContainer(id string) *expect.Container {
	for i := range e.expected.Containers {
		if e.expected.Containers[i].ID == id {
			return &e.expected.Containers[i]
		}
	}
	return nil
}
