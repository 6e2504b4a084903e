// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"errors"
	"fmt"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/cpu/placement"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// planner plans the devices of one claim, one after the other.
type planner struct {
	Driver
	claim    driver.Claim
	machine  *model.Machine
	topology *placement.Topology
	// taken is what other claims hold, and what this one has got so far.
	taken taken
	// full are single CPUs whose cores nobody else may have.
	full cpuset.CPUSet
	// mine are all CPUs of this claim so far.
	mine cpuset.CPUSet
}

func (p *planner) device(a driver.Allocation) (Plan, error) {
	d := slicecodec.FindCPUDevice(p.machine, p.Offer, a.Device)
	if d == nil {
		return Plan{}, p.notThere()
	}
	plan := Plan{NUMANode: d.NUMANode}
	if a.AdminAccess {
		return plan, nil
	}
	want, err := parametersOf(a.Configs)
	if err != nil {
		return Plan{}, err
	}
	n, err := wantedCPUs(a, d)
	if err != nil {
		return Plan{}, err
	}
	free := d.CPUs.Difference(p.taken.cpus)
	if free.Size() < n {
		return Plan{}, fmt.Errorf("wants %d CPUs of %s, of which %d are free (%s): %d of its %d allocatable CPUs belong to other claims",
			n, d, free.Size(), orNone(free), d.CPUs.Size()-free.Size(), d.CPUs.Size())
	}
	var cpus cpuset.CPUSet
	if d.CPU != nil {
		cpus, err = p.single(d, want)
	} else {
		request := placement.Request{N: n, Free: free, Near: p.near(a), Policy: want.policy}
		if cpus, err = placement.Place(p.topology, request); err != nil {
			err = fmt.Errorf("%s: %w; %d of its %d allocatable CPUs are taken", d, err, d.CPUs.Size()-free.Size(), d.CPUs.Size())
		}
	}
	if err != nil {
		return Plan{}, err
	}
	nodes := p.nodesOf(cpus)
	if plan.Hugepages, err = p.hugepages(a, d, nodes); err != nil {
		return Plan{}, err
	}
	plan.CPUs, plan.Mems = cpus.String(), p.mems(cpus, plan.Hugepages).String()
	p.taken.cpus, p.mine = p.taken.cpus.Union(cpus), p.mine.Union(cpus)
	return plan, nil
}

func (p *planner) notThere() error {
	if reserved := slicecodec.ReservedCPUs(p.machine, p.Offer); !reserved.IsEmpty() {
		return fmt.Errorf("this node has no such device of CPUs, or all of its CPUs are offline or reserved (%s)", reserved)
	}
	return errors.New("this node has no such device of CPUs, or all of its CPUs are offline")
}

// single is the CPU that the scheduler chose, if it is what the parameters want.
func (p *planner) single(d *slicecodec.CPUDevice, want parameters) (cpuset.CPUSet, error) {
	if len(want.choices) > 0 {
		return cpuset.New(), fmt.Errorf("parameters: %s: the scheduler has chosen %s by itself: want it left out, or groups of CPUs (the agent's --cpu-device-mode)", want.choices[0], d)
	}
	policy := want.policy
	if !policy.CPUs.IsEmpty() && !d.CPUs.IsSubsetOf(policy.CPUs) {
		return cpuset.New(), fmt.Errorf("parameters: %s: %s is not among them: want a selector that says so too", want.cpusPath, d)
	}
	policy.CPUs = cpuset.New()
	if policy.FullCores {
		p.full = p.full.Union(d.CPUs)
		policy.FullCores = false // of the claim's CPUs together
	}
	return placement.Place(p.topology, placement.Request{N: 1, Free: d.CPUs, Policy: policy})
}

// brokenCores refuses a claim of single CPUs that shall have full cores and was
// given part of one.
func (p *planner) brokenCores() error {
	for _, core := range p.topology.Cores {
		threads := cpuset.New(core.Threads...)
		if have := threads.Intersection(p.full); !have.IsEmpty() && !threads.IsSubsetOf(p.mine) {
			return fmt.Errorf("parameters: fullCores: the scheduler gave CPUs %s of the core with CPUs %s: want all of them, or groups of CPUs (the agent's --cpu-device-mode)",
				threads.Intersection(p.mine), threads)
		}
	}
	return nil
}

// lastCPU refuses a claim that leaves no CPU to anybody else: the node's own pods,
// the agent among them, could not run. It can only be where none is reserved.
func (p *planner) lastCPU() error {
	if p.mine.IsEmpty() || !p.leftBy(p.machine, p.taken.cpus).IsEmpty() {
		return nil
	}
	return errors.New("it would hold the last CPUs of this node, and leave none to containers without a CPU claim: " +
		"want a smaller claim, or CPUs reserved on the node (the agent's --reserved-cpus or --reserved-per-numa)")
}

// wantedCPUs is the consumed capacity, authoritative over the request; the whole
// device where the allocation names none.
func wantedCPUs(a driver.Allocation, d *slicecodec.CPUDevice) (int, error) {
	q, ok := a.Consumed[slicecodec.CapacityCPU]
	if !ok {
		return d.CPUs.Size(), nil
	}
	n := q.Value() // rounds up
	if q.MilliValue() != n*1000 || n <= 0 {
		return 0, fmt.Errorf("consumed capacity %s is %s: want a whole number of CPUs, at least 1", slicecodec.CapacityCPU, q.String())
	}
	if n > int64(d.CPUs.Size()) {
		return 0, fmt.Errorf("consumed capacity %s is %d: %s has %d allocatable CPUs", slicecodec.CapacityCPU, n, d, d.CPUs.Size())
	}
	return int(n), nil
}

func orNone(s cpuset.CPUSet) string {
	if s.IsEmpty() {
		return "none"
	}
	return s.String()
}
