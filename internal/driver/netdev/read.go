// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev/hoststate"
	"plumbline.dev/plumbline/internal/driver/netdev/side"
	"plumbline.dev/plumbline/internal/host/rdma"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// facts are what planning needs to know of the kernel.
type facts struct {
	// nics are the host's sides of the claimed NICs, by device name.
	nics map[string]nicFacts
	// rdmaCM says that the host has /dev/infiniband/rdma_cm.
	rdmaCM bool
	// exclusive says that RDMA devices are seen in one namespace only.
	exclusive bool
	// software are the kinds of software RDMA devices, by name.
	software map[string]string
	// keepsPrograms says that eBPF programs can be kept while they are off.
	keepsPrograms bool
}

// nicFacts is a NIC on the host, or why it cannot be taken.
type nicFacts struct {
	seen *hoststate.Seen
	err  error
}

// Read reads what the kernel says of the claimed NICs.
func (d *Driver) Read(ctx context.Context, c driver.Claim, m *model.Machine) (driver.Planner, error) {
	k := facts{
		nics:          map[string]nicFacts{},
		rdmaCM:        hasRDMACM(d.sys),
		keepsPrograms: d.host.BPFFS != "",
	}
	var usesRDMA bool
	for _, a := range c.Devices {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("claim %s: %w", c.ClaimRef, err)
		}
		nic := slicecodec.FindNIC(m, a.Device)
		if nic == nil || a.AdminAccess {
			continue
		}
		usesRDMA = usesRDMA || nic.RDMA != nil
		if _, done := k.nics[a.Device]; nic.Interface != nil && !done {
			seen, err := d.host.Take(side.IdentityOf(*nic, nil))
			k.nics[a.Device] = nicFacts{seen: seen, err: err}
		}
	}
	if usesRDMA {
		if err := k.readRDMA(d.host.Fd()); err != nil {
			return nil, fmt.Errorf("claim %s: %w", c.ClaimRef, err)
		}
	}
	return &knowing{bootID: d.bootID, facts: k}, nil
}

func (k *facts) readRDMA(namespace int) error {
	mode, err := rdma.NamespaceMode(namespace)
	if errors.Is(err, rdma.ErrNone) {
		return nil
	}
	if err != nil {
		return err // taking exclusive for shared would leave the pod without it
	}
	k.exclusive = mode == rdma.Exclusive
	devices, err := rdma.Devices(namespace)
	if err != nil {
		return err
	}
	k.software = map[string]string{}
	for _, dev := range devices {
		if dev.Kind != "" {
			k.software[dev.Name] = dev.Kind
		}
	}
	return nil
}

// rdmaPlan is what becomes of an RDMA device; nil where it stays as it is.
func (k *facts) rdmaPlan(dev *model.RDMADevice) *RDMA {
	switch {
	case dev == nil:
		return nil
	case dev.Software:
		if kind := k.software[dev.Name]; kind != "" {
			return &RDMA{Name: dev.Name, Software: kind}
		}
	case k.exclusive:
		return &RDMA{Name: dev.Name, Exclusive: true}
	}
	return nil
}

// knowing is the pure planner of one claim.
type knowing struct {
	bootID string
	facts  facts
}

// Name is the DRA driver's name.
func (k *knowing) Name() string { return Name }

// Plan decides by what was read.
func (k *knowing) Plan(c driver.Claim, m *model.Machine, held []driver.Record) (driver.Record, error) {
	return planner{claim: c, held: held, m: m, bootID: k.bootID, facts: k.facts}.plan()
}

// Plan reads the state of the claimed NICs, and decides.
func (d *Driver) Plan(c driver.Claim, m *model.Machine, held []driver.Record) (driver.Record, error) {
	p, err := d.Read(context.Background(), c, m)
	if err != nil {
		return driver.Record{}, err
	}
	return p.Plan(c, m, held)
}

// inherit adds the routes that a held record remembers and that lead through
// this NIC, too.
func inherit(s *hoststate.State, held driver.Record) error {
	for _, d := range held.Devices {
		plan, err := ReadPlan(d)
		if err == nil && plan.Host != nil {
			err = s.Inherit(plan.Host)
		}
		if err != nil {
			return fmt.Errorf("held claim %s, device %s: %w", held.Claim, d.Device, err)
		}
	}
	return nil
}

// hasRDMACM says whether containers will find /dev/infiniband/rdma_cm on the
// host, which the kernel makes for this misc device
// (drivers/infiniband/core/ucma.c).
func hasRDMACM(sys fs.FS) bool { return exists(sys, "class/misc/rdma_cm") }

func exists(root fs.FS, path string) bool {
	_, err := fs.Stat(root, path)
	return err == nil
}
