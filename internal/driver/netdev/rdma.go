// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/host/rdma"
	"plumbline.dev/plumbline/internal/model"
)

// edits are the character devices of an RDMA device: its verbs, and the
// connection manager where the host has one. Management devices (umad, issm)
// can reconfigure the fabric, and stay outside unless they are asked for. A
// software device has none to give: it is gone once its interface has moved,
// before any container starts.
func edits(dev *model.RDMADevice, c *v1alpha1.NetworkConfig, rdmaCM bool) (driver.Edits, error) {
	var e driver.Edits
	if dev == nil {
		return e, nil
	}
	wanted := []string{"uverbs"}
	var errs []error
	for _, f := range []struct {
		kind  string
		asked *bool
	}{{"umad", askedOf(c, true)}, {"issm", askedOf(c, false)}} {
		if f.asked == nil || !*f.asked {
			continue
		}
		if dev.Software || !slices.ContainsFunc(dev.CharDevices, func(p string) bool { return isKind(p, f.kind) }) {
			errs = append(errs, fmt.Errorf("rdma.%[1]s: device %[2]s has no %[1]s file: leave it out", f.kind, dev.Name))
		}
		wanted = append(wanted, f.kind)
	}
	if dev.Software {
		return e, errors.Join(errs...)
	}
	for _, p := range dev.CharDevices {
		if slices.ContainsFunc(wanted, func(kind string) bool { return isKind(p, kind) }) {
			e.DeviceNodes = append(e.DeviceNodes, driver.DeviceNode{Path: p, Permissions: "rw"})
		}
	}
	if rdmaCM {
		e.DeviceNodes = append(e.DeviceNodes, driver.DeviceNode{Path: "/dev/infiniband/rdma_cm", Permissions: "rw"})
	}
	return e, errors.Join(errs...)
}

func askedOf(c *v1alpha1.NetworkConfig, umad bool) *bool {
	switch {
	case c == nil || c.RDMA == nil:
		return nil
	case umad:
		return c.RDMA.UMAD
	}
	return c.RDMA.ISSM
}

func isKind(file, kind string) bool { return strings.HasPrefix(path.Base(file), kind) }

// MemlockFor says whether the record holds an RDMA device: its user pins the
// memory that the device reads and writes, far beyond the usual limit.
func (d *Driver) MemlockFor(r driver.Record) bool {
	return slices.ContainsFunc(r.Devices, func(dev driver.DeviceRecord) bool {
		plan, err := readBrief(dev)
		return err == nil && !dev.AdminAccess && plan.NIC.RDMA != nil
	})
}

// moveRDMA moves the RDMA device of a plan to another namespace, where the node is in
// exclusive mode. It is no error when it is there already.
func moveRDMA(plan Plan, from, to int) error {
	if plan.RDMA == nil || !plan.RDMA.Exclusive {
		return nil
	}
	there, err := rdma.Devices(from)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(there, func(dev rdma.Device) bool { return dev.Name == plan.RDMA.Name }) {
		return nil
	}
	return rdma.Move(from, plan.RDMA.Name, to)
}

// remakeRDMA creates a software RDMA device again, which the kernel deleted when
// its interface moved.
func remakeRDMA(plan Plan, host int) error {
	if plan.RDMA == nil || plan.RDMA.Software == "" {
		return nil
	}
	return rdma.AddSoftware(host, plan.RDMA.Name, plan.RDMA.Software, plan.Host.Name)
}
