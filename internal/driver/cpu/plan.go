// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/cpu/placement"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// Driver is dra.cpu. The zero value offers every CPU, by NUMA node.
type Driver struct {
	// Offer says how CPUs are published. Its reserved CPUs go to no claim, and to
	// shared containers only where claims hold all others.
	Offer slicecodec.CPUOptions
}

// Plan is what is decided about one device; it is DeviceRecord.Plan.
type Plan struct {
	// NUMANode is the node that the device is of; nil of one that spans several.
	NUMANode *int `json:"numaNode,omitempty"`
	// CPUs is a cpulist such as "2-3,58-59"; empty for admin access.
	CPUs string `json:"cpus"`
	// Mems are the NUMA nodes whose memory is beside the CPUs, as a list such as
	// "0-1"; empty leaves the memory as it is.
	Mems string `json:"mems,omitempty"`
	// Hugepages are what the claim takes of each node's huge pages.
	Hugepages []Hugepages `json:"hugepages,omitempty"`
}

// Name is dra.cpu.
func (d Driver) Name() string { return slicecodec.DriverCPU }

// Plan chooses CPUs and huge pages for every result of the claim, in order, none
// twice.
func (d Driver) Plan(c driver.Claim, m *model.Machine, held []driver.Record) (driver.Record, error) {
	all, err := takenBy(held)
	if err != nil {
		return driver.Record{}, err
	}
	r, err := d.plan(c, m, all)
	if err == nil || len(held) == 0 {
		return r, err
	}
	if _, alone := d.plan(c, m, nothing()); alone == nil {
		return driver.Record{}, driver.HeldError{Err: err}
	}
	return driver.Record{}, err
}

// plan is Plan, given what other claims hold.
func (d Driver) plan(c driver.Claim, m *model.Machine, others taken) (driver.Record, error) {
	p := planner{Driver: d, claim: c, machine: m, topology: placement.NewTopology(m), taken: others}
	r := driver.Record{Version: driver.RecordVersion, Driver: d.Name(), Claim: c.ClaimRef, Pods: c.Pods}
	for _, a := range c.Devices {
		plan, err := p.device(a)
		if err != nil {
			return driver.Record{}, fmt.Errorf("claim %s, request %s, device %s: %w", c.ClaimRef, a.Request, a.Device, err)
		}
		text, err := json.Marshal(plan)
		if err != nil {
			return driver.Record{}, fmt.Errorf("encode plan: %w", err)
		}
		device := driver.DeviceRecord{
			Request: a.Request, Pool: a.Pool, Device: a.Device, AdminAccess: a.AdminAccess, Plan: text,
		}
		if !a.AdminAccess {
			device.StatusData = text
		}
		if a.ShareID != nil {
			device.ShareID = string(*a.ShareID)
		}
		r.Devices = append(r.Devices, device)
	}
	if err := errors.Join(p.partialCores(), p.lastCPU()); err != nil {
		return driver.Record{}, fmt.Errorf("claim %s: %w", c.ClaimRef, err)
	}
	return r, setEnv(&r)
}

// setEnv puts Env into the CDI edits of a claim with one device. For one with several
// the agent sets it, since a container may name only some of them.
func setEnv(r *driver.Record) error {
	if len(r.Devices) != 1 || r.Devices[0].AdminAccess {
		return nil
	}
	env, err := Env(*r)
	if err != nil {
		return err
	}
	r.Devices[0].Edits.Env = []string{env}
	return nil
}

// Env is DRA_CPUSET_<claimUID>=<cpulist> of all devices of the record. Workloads
// parse it: the name, with the UID's hyphens, must not change.
func Env(r driver.Record) (string, error) {
	taken, err := takenBy([]driver.Record{r})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("DRA_CPUSET_%s=%s", r.Claim.UID, taken.cpus), nil
}

// plansOf are the plans of a record's devices, in order.
func plansOf(r driver.Record) ([]Plan, error) {
	plans := make([]Plan, len(r.Devices))
	for i, device := range r.Devices {
		if err := json.Unmarshal(device.Plan, &plans[i]); err != nil {
			return nil, fmt.Errorf("record of claim %s, device %s: decode plan: %w", r.Claim, device.Device, err)
		}
		if plans[i].Mems == "" && plans[i].NUMANode != nil {
			// Written before Mems was: a device was a node.
			plans[i].Mems = cpuset.New(*plans[i].NUMANode).String()
		}
	}
	return plans, nil
}

// taken is what records hold.
type taken struct {
	cpus cpuset.CPUSet
	// pages are bytes of huge pages.
	pages map[pool]int64
}

func nothing() taken { return taken{cpus: cpuset.New(), pages: map[pool]int64{}} }

// takenBy is what the records hold together.
func takenBy(records []driver.Record) (taken, error) {
	all := nothing()
	for _, r := range records {
		plans, err := plansOf(r)
		if err != nil {
			return taken{}, err
		}
		for i, p := range plans {
			cpus, err := cpuset.Parse(p.CPUs)
			if err != nil {
				return taken{}, fmt.Errorf("record of claim %s, device %s: %w", r.Claim, r.Devices[i].Device, err)
			}
			all.cpus = all.cpus.Union(cpus)
			for _, h := range p.Hugepages {
				all.pages[pool{h.Node, h.PageBytes}] += h.Bytes
			}
		}
	}
	return all, nil
}

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

// partialCores refuses a claim of single CPUs that shall have full cores and was
// given part of one.
func (p *planner) partialCores() error {
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
// the agent among them, could not run. This happens only where no CPU is reserved.
func (p *planner) lastCPU() error {
	if p.mine.IsEmpty() || !p.notHeld(p.machine, p.taken.cpus).IsEmpty() {
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
