// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/verify/expect"
	"plumbline.dev/plumbline/internal/verify/facts"
	"plumbline.dev/plumbline/internal/verify/nearest"
)

// Outcome is the verdict on a pod with what it was made from. How near its things
// are is the other question: Nearness.
type Outcome struct {
	Verdict
	Things []Thing
	Pairs  []Pair
}

// court is one pod before its judge.
type court struct {
	m        *model.Machine
	promised expect.Pod
	found    facts.Pod
	findings []Finding
	// places of claimed devices, by claim and request.
	places map[string]map[string][]place
	// claimed are the PCI functions that claims of the pod have.
	claimed map[model.PCIAddress]*expect.Device
	things  []Thing
}

// place is where a claimed device really is.
type place struct {
	device *expect.Device
	pci    *model.PCIAddress
	// cpus are those of a container that names the request; empty for others.
	cpus cpuset.CPUSet
}

// Judge judges a pod. The machine is the node's.
func Judge(m *nearest.Machine, promised expect.Pod, found facts.Pod) Outcome {
	c := &court{
		m: m.Machine, promised: promised, found: found,
		places: map[string]map[string][]place{}, claimed: map[model.PCIAddress]*expect.Device{},
	}
	if promised.Ended || len(promised.Containers) == 0 {
		return Outcome{Verdict: Conclude([]Finding{{
			State: StateUnknown, Code: NotRunning, What: "the pod", Why: "no container of it runs, or it is ending",
		}})}
	}
	c.readable()
	for i := range promised.Claims {
		c.claim(&promised.Claims[i])
	}
	c.nothingElse()
	c.pluginGPUs()
	c.containers()
	for _, claim := range promised.Claims {
		c.constraints(claim)
	}
	c.thingsFound()
	c.besidePlugins()
	return Outcome{Verdict: Conclude(c.findings), Things: c.things, Pairs: c.compared(m, pairsOf(m.Machine, c.things))}
}

func (c *court) add(f Finding) { c.findings = append(c.findings, f) }

// readable says what is not known of the pod as a whole.
func (c *court) readable() {
	for _, name := range c.promised.Missing {
		c.add(Finding{State: StateUnknown, Code: NotRead, Claim: name, What: "claim " + name, Why: "the API server does not have it, or it is not allocated"})
	}
	for _, container := range c.found.Containers {
		if container.Err != nil {
			c.add(Finding{State: StateUnknown, Code: NotRead, What: "container " + container.Name, Why: container.Err.Error()})
		}
		if container.FilesErr != nil {
			c.add(Finding{State: StateUnknown, Code: NotRead, What: "device files of container " + container.Name, Why: container.FilesErr.Error()})
		}
	}
	if c.found.Network.Err != nil && !c.promised.HostNetwork {
		c.add(Finding{State: StateUnknown, Code: NotRead, What: "network interfaces", Why: c.found.Network.Err.Error()})
	}
}

func (c *court) setPlace(claim string, p place) {
	if c.places[claim] == nil {
		c.places[claim] = map[string][]place{}
	}
	c.places[claim][p.device.Request] = append(c.places[claim][p.device.Request], p)
}

// promisedContainer finds what was promised of a container; nil for none.
func (c *court) promisedContainer(id string) *expect.Container {
	for i := range c.promised.Containers {
		if c.promised.Containers[i].ID == id {
			return &c.promised.Containers[i]
		}
	}
	return nil
}
