// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"encoding/json"
	"fmt"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// Driver plans GPU claims. What a container gets is in its CDI file, so there
// is nothing to attach and nothing to undo.
type Driver struct{}

// Plan is what is decided about one device; it is DeviceRecord.Plan.
type Plan struct {
	PCI model.PCIAddress `json:"pci"`
	// Simulated says what stands in for what; empty for a real GPU.
	Simulated string `json:"simulated,omitempty"`
}

// Name is gpu.nvidia.com.
func (Driver) Name() string { return slicecodec.DriverGPU }

// Plan gives every result of the claim its device files.
func (d Driver) Plan(c driver.Claim, m *model.Machine, held []driver.Record) (driver.Record, error) {
	r := driver.Record{Version: driver.RecordVersion, Driver: d.Name(), Claim: c.ClaimRef, Pods: c.Pods}
	for _, a := range c.Devices {
		device, err := planDevice(a, m, held)
		if err != nil {
			return driver.Record{}, fmt.Errorf("claim %s, request %s, device %s: %w", c.ClaimRef, a.Request, a.Device, err)
		}
		r.Devices = append(r.Devices, device)
	}
	return r, nil
}

func planDevice(a driver.Allocation, m *model.Machine, held []driver.Record) (driver.DeviceRecord, error) {
	g := slicecodec.FindGPU(m, a.Device)
	if g == nil {
		return driver.DeviceRecord{}, fmt.Errorf("this node has no such GPU")
	}
	if holder := holderOf(a.Device, held); holder != nil && !a.AdminAccess {
		return driver.DeviceRecord{}, driver.HeldError{Err: fmt.Errorf("the GPU is held by claim %s, which is still prepared on this node", holder)}
	}
	if len(a.Configs) > 0 {
		return driver.DeviceRecord{}, fmt.Errorf("parameters of the %s: a simulated GPU takes none", a.Configs[0].Source)
	}
	if len(g.DeviceNodes) == 0 {
		return driver.DeviceRecord{}, fmt.Errorf("function %s has no device file: is its kernel driver loaded?", g.PCI)
	}
	p := Plan{PCI: g.PCI}
	if g.Simulated != nil {
		p.Simulated = *g.Simulated
	}
	text, err := json.Marshal(p)
	if err != nil {
		return driver.DeviceRecord{}, fmt.Errorf("encode plan: %w", err)
	}
	device := driver.DeviceRecord{
		Request: a.Request, Pool: a.Pool, Device: a.Device, AdminAccess: a.AdminAccess, Plan: text,
		// As the vendor's driver does: keeps a runtime hook of the vendor from
		// adding devices of its own choice.
		Edits: driver.Edits{Env: []string{"NVIDIA_VISIBLE_DEVICES=void"}},
	}
	for _, path := range g.DeviceNodes {
		device.Edits.DeviceNodes = append(device.Edits.DeviceNodes, driver.DeviceNode{Path: path, Permissions: "rw"})
	}
	return device, nil
}

func holderOf(device string, held []driver.Record) *driver.ClaimRef {
	for _, r := range held {
		for _, d := range r.Devices {
			if d.Device == device && !d.AdminAccess {
				return &r.Claim
			}
		}
	}
	return nil
}
