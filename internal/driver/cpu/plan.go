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

// Driver plans and pins. The zero value offers every CPU, by NUMA node.
type Driver struct {
	// Offer says how CPUs are offered. Its reserved CPUs are given to no claim, and
	// to shared containers only where claims hold all others.
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

// plan is Plan beside what is taken.
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
	if err := errors.Join(p.brokenCores(), p.lastCPU()); err != nil {
		return driver.Record{}, fmt.Errorf("claim %s: %w", c.ClaimRef, err)
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
