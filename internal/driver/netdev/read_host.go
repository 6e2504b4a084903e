// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev/hoststate"
	"plumbline.dev/plumbline/internal/driver/netdev/nslink"
	"plumbline.dev/plumbline/internal/host/rdma"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// facts are what planning needs to know of the kernel.
type facts struct {
	// nics are the claimed NICs as they are on the host, by device name.
	nics map[string]nicFacts
	// parents are the claimed NICs that are shared, by device name.
	parents map[string]parentFacts
	// blocks are those of the pools that the claim takes addresses from, by pool.
	blocks map[string]blockFacts
	// exclusive says that RDMA devices are seen in one namespace only.
	exclusive bool
	// software are the kinds of software RDMA devices, by name.
	software map[string]string
	// keepsPrograms says that eBPF programs can be kept while they are off.
	keepsPrograms bool
}

// nicFacts is a NIC on the host, or why it cannot be taken.
type nicFacts struct {
	seen *hoststate.HostNIC
	err  error
	// vf is nil where the NIC is no virtual function.
	vf *vfFacts
}

// Read reads what the kernel says of the claimed NICs.
func (d *Driver) Read(ctx context.Context, c driver.Claim, m *model.Machine) (driver.Planner, error) {
	k := facts{
		nics:          map[string]nicFacts{},
		parents:       map[string]parentFacts{},
		blocks:        map[string]blockFacts{},
		keepsPrograms: d.host.BPFFS != "",
	}
	var usesRDMA bool
	identities, parents := map[string]nslink.Identity{}, map[string]nslink.Identity{}
	for _, a := range c.Devices {
		nic := slicecodec.FindNIC(m, a.Device)
		if nic == nil || a.AdminAccess {
			continue
		}
		usesRDMA = usesRDMA || nic.RDMA != nil
		if merged, err := merge(a.Configs); err == nil { // Plan says what is wrong
			if a.ShareID != nil {
				merged = withOffer(merged, nic.Share)
			}
			d.readBlock(merged, k.blocks)
		}
		if nic.Interface == nil {
			continue
		}
		into := identities
		if a.ShareID != nil {
			into = parents
		}
		into[a.Device] = nslink.IdentityOf(*nic, nil).Alone(alone(m, nic))
	}
	if err := d.readParents(parents, k.parents); err != nil {
		return nil, fmt.Errorf("claim %s: %w", c.ClaimRef, err)
	}
	if err := d.readNICs(ctx, identities, k.nics); err != nil {
		return nil, fmt.Errorf("claim %s: %w", c.ClaimRef, err)
	}
	for device, seen := range k.nics {
		seen.vf = d.readVF(m, slicecodec.FindNIC(m, device))
		k.nics[device] = seen
	}
	if usesRDMA {
		if err := k.readRDMA(d.rdma, d.host.Fd()); err != nil {
			return nil, fmt.Errorf("claim %s: %w", c.ClaimRef, err)
		}
	}
	return &boundPlanner{bootID: d.bootID, facts: k}, nil
}

// readParents reads the links of shared NICs, which stay on the host.
func (d *Driver) readParents(identities map[string]nslink.Identity, into map[string]parentFacts) error {
	if len(identities) == 0 {
		return nil
	}
	links, err := d.host.Links()
	if err != nil {
		return err
	}
	addresses, err := d.host.Addresses()
	if err != nil {
		return err
	}
	for device, id := range identities {
		parent := readParent(links, id)
		for _, a := range addresses {
			if parent.link != nil && a.Index == parent.link.Index {
				parent.addresses = append(parent.addresses, a.Prefix.Addr())
			}
		}
		into[device] = parent
	}
	return nil
}

// Refusals says why Read would refuse interfaces on the host, whatever a claim asks
// of them, and which eBPF programs are on them, by their ifindexes: NICs that
// would be refused must not be offered.
func (d *Driver) Refusals(indexes []int) (refusals map[int]error, programs map[int]model.Programs, err error) {
	if refusals, programs, err = d.host.Refusals(indexes); err != nil {
		return nil, nil, fmt.Errorf("driver %s: judge the host's interfaces: %w", Name, err)
	}
	return refusals, programs, nil
}

// RDMARefusals says why Plan would refuse RDMA devices with IPoIB interfaces, by their
// names: where one network namespace alone sees such a device, it must not be offered.
func (d *Driver) RDMARefusals(nics []*model.NIC) (refusals map[string]error, err error) {
	mode, err := d.rdma.Mode(d.host.Fd())
	if errors.Is(err, rdma.ErrNone) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("driver %s: read the mode of RDMA devices: %w", Name, err)
	}
	if mode != rdma.Exclusive {
		return nil, nil
	}
	refusals = make(map[string]error, len(nics))
	for _, nic := range nics {
		if nic.RDMA.HostInterface != nil {
			refusals[nic.RDMA.Name] = lossOf(nic.RDMA)
		} else {
			refusals[nic.RDMA.Name] = endOf(nic)
		}
	}
	return refusals, nil
}

// readNICs reads NICs from one snapshot of the host, as many at a time as there are
// processors: most of it is hundreds of small files.
func (d *Driver) readNICs(ctx context.Context, identities map[string]nslink.Identity, into map[string]nicFacts) error {
	if len(identities) == 0 {
		return nil
	}
	snapshot, err := d.host.Snapshot()
	if err != nil {
		return err
	}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for device, id := range identities {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			seen, err := snapshot.Take(id)
			mu.Lock()
			defer mu.Unlock()
			into[device] = nicFacts{seen: seen, err: err}
			return nil
		})
	}
	return group.Wait()
}

func (k *facts) readRDMA(system rdmaSystem, namespace int) error {
	mode, err := system.Mode(namespace)
	if errors.Is(err, rdma.ErrNone) {
		return nil
	}
	if err != nil {
		return err // taking exclusive for shared would leave the pod without it
	}
	k.exclusive = mode == rdma.Exclusive
	devices, err := system.Devices(namespace)
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

// boundPlanner is the pure planner of one claim, bound to what the kernel said of its NICs.
type boundPlanner struct {
	bootID string
	facts  facts
}

// Name is the DRA driver's name.
func (p *boundPlanner) Name() string { return Name }

// Plan decides by what was read.
func (p *boundPlanner) Plan(c driver.Claim, m *model.Machine, held []driver.Record) (driver.Record, error) {
	return planner{claim: c, m: m, bootID: p.bootID, facts: p.facts}.plan(held)
}

// Plan reads the state of the claimed NICs, and decides.
func (d *Driver) Plan(c driver.Claim, m *model.Machine, held []driver.Record) (driver.Record, error) {
	p, err := d.Read(context.Background(), c, m)
	if err != nil {
		return driver.Record{}, err
	}
	return p.Plan(c, m, held)
}

// heldStates are the NICs of held records as they were on the host.
func heldStates(held []heldDevice) []*hoststate.State {
	var away []*hoststate.State
	for _, d := range held {
		if d.plan.Host != nil {
			away = append(away, d.plan.Host)
		}
	}
	return away
}

func exists(root fs.FS, path string) bool {
	_, err := fs.Stat(root, path)
	return err == nil
}
