// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"encoding/json"
	"fmt"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/cpu/placement"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// Driver plans and pins. The zero value reserves nothing.
type Driver struct {
	// Reserved CPUs are given to no claim and to no shared container.
	Reserved cpuset.CPUSet
}

// Plan is what is decided about one device; it is DeviceRecord.Plan.
type Plan struct {
	// NUMANode is the node the CPUs belong to.
	NUMANode int `json:"numaNode"`
	// CPUs is a cpulist such as "2-3,58-59"; empty for admin access.
	CPUs string `json:"cpus"`
}

// Name is dra.cpu.
func (d Driver) Name() string { return slicecodec.DriverCPU }

// Plan chooses CPUs for every result of the claim, in order, none twice.
func (d Driver) Plan(c driver.Claim, m *model.Machine, held []driver.Record) (driver.Record, error) {
	taken, err := heldCPUs(held)
	if err != nil {
		return driver.Record{}, err
	}
	r := driver.Record{Version: driver.RecordVersion, Driver: d.Name(), Claim: c.ClaimRef, Pods: c.Pods}
	for _, a := range c.Devices {
		p, err := d.planDevice(a, m, taken)
		if err != nil {
			return driver.Record{}, fmt.Errorf("claim %s, request %s, device %s: %w", c.ClaimRef, a.Request, a.Device, err)
		}
		cpus, err := cpuset.Parse(p.CPUs)
		if err != nil {
			return driver.Record{}, err
		}
		taken = taken.Union(cpus)
		text, err := json.Marshal(p)
		if err != nil {
			return driver.Record{}, fmt.Errorf("encode plan: %w", err)
		}
		device := driver.DeviceRecord{
			Request: a.Request, Pool: a.Pool, Device: a.Device, AdminAccess: a.AdminAccess, Plan: text,
		}
		if a.ShareID != nil {
			device.ShareID = string(*a.ShareID)
		}
		r.Devices = append(r.Devices, device)
	}
	return r, setEnv(&r)
}

// setEnv tells the container its CPUs. Where a claim has one device the CDI
// file says it all; with several the agent adds the union of those that a
// container names.
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

// Env is DRA_CPUSET_<claimUID>=<cpulist> of all devices of the record. Others
// parse it: the name, hyphens included, is part of the contract.
func Env(r driver.Record) (string, error) {
	cpus, err := heldCPUs([]driver.Record{r})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("DRA_CPUSET_%s=%s", r.Claim.UID, cpus), nil
}

func (d Driver) planDevice(a driver.Allocation, m *model.Machine, taken cpuset.CPUSet) (Plan, error) {
	node := slicecodec.FindCPUGroup(m, a.Device)
	if node == nil {
		return Plan{}, fmt.Errorf("this node has no such group of CPUs")
	}
	p := Plan{NUMANode: node.ID}
	if a.AdminAccess {
		return p, nil
	}
	allocatable := slicecodec.AllocatableCPUs(m, node.ID, d.Reserved)
	n, err := wanted(a, allocatable.Size())
	if err != nil {
		return Plan{}, err
	}
	free := allocatable.Difference(taken)
	if free.Size() < n {
		return Plan{}, fmt.Errorf("wants %d CPUs of NUMA node %d, of which %d are free (%s): %d of its %d allocatable CPUs belong to other claims",
			n, node.ID, free.Size(), orNone(free), allocatable.Intersection(taken).Size(), allocatable.Size())
	}
	chosen, err := d.choose(a, m, free, n)
	if err != nil {
		return Plan{}, err
	}
	p.CPUs = chosen.String()
	return p, nil
}

func (d Driver) choose(a driver.Allocation, m *model.Machine, free cpuset.CPUSet, n int) (cpuset.CPUSet, error) {
	named, err := configuredCPUs(a.Configs)
	if err != nil {
		return cpuset.New(), err
	}
	if named.IsEmpty() {
		return placement.Place(placement.NewTopology(m), placement.Request{N: n, Free: free})
	}
	if named.Size() != n {
		return cpuset.New(), fmt.Errorf("cpuConfig.cpuset %q names %d CPUs, the claim consumes %d: want as many", named, named.Size(), n)
	}
	if missing := named.Difference(free); !missing.IsEmpty() {
		return cpuset.New(), fmt.Errorf("cpuConfig.cpuset %q: CPUs %s are not free on the claimed NUMA node; free are %s", named, missing, orNone(free))
	}
	return named, nil
}

// wanted is the consumed capacity, authoritative over the request; the whole
// group where the allocation names none.
func wanted(a driver.Allocation, group int) (int, error) {
	q, ok := a.Consumed[string(slicecodec.CapacityCPU)]
	if !ok {
		return group, nil
	}
	n := q.Value() // rounds up
	if q.MilliValue() != n*1000 || n <= 0 {
		return 0, fmt.Errorf("consumed capacity %s is %s: want a whole number of CPUs, at least 1", slicecodec.CapacityCPU, q.String())
	}
	if n > int64(group) {
		return 0, fmt.Errorf("consumed capacity %s is %d: the group has %d allocatable CPUs", slicecodec.CapacityCPU, n, group)
	}
	return int(n), nil
}

func orNone(s cpuset.CPUSet) string {
	if s.IsEmpty() {
		return "none"
	}
	return s.String()
}
