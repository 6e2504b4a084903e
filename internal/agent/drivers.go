// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/cpu"
	"plumbline.dev/plumbline/internal/driver/gpu"
	"plumbline.dev/plumbline/internal/driver/netdev"
	"plumbline.dev/plumbline/internal/guard"
	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/host/pciids"
	"plumbline.dev/plumbline/internal/host/sysfs"
	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/inventory/filter"
	"plumbline.dev/plumbline/internal/kube"
	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// newDriver is the list of drivers there are. machine is the newest scan of the host, pools
// those of addresses.
func newDriver(name string, o Options, bootID string, machine func() *model.Machine, pools netdev.Pools) (claims.Driver, error) {
	switch name {
	case slicecodec.DriverNet:
		d, err := newNetDriver(o, bootID, machine, pools)
		if err != nil {
			return claims.Driver{}, err
		}
		served := claims.Of(d)
		served.HeldShares, served.FromPool = netdev.HeldShares, netdev.FromPool
		served.HeldNICs, served.InPod, served.RDMAInPod, served.Close = netdev.HeldNICs, inPod, rdmaInPod, d.Close
		return served, nil
	case slicecodec.DriverCPU:
		return claims.Of(cpu.Driver{Offer: o.CPUs}), nil
	case slicecodec.DriverGPU:
		return claims.Of(gpu.Driver{}), nil
	}
	return claims.Driver{}, fmt.Errorf("driver %s: not built into this agent", name)
}

func newNetDriver(o Options, bootID string, machine func() *model.Machine, pools netdev.Pools) (*netdev.Driver, error) {
	return netdev.New(netdev.Options{
		Host: netns.Self, BootID: bootID, Sys: os.DirFS(o.SysfsRoot), ProcSys: o.ProcSys, BPFFS: o.BPFFS, AllowLoss: o.AllowLoss,
		Machine: machine, Pools: pools,
	})
}

// askDriver has a scan ask the driver of NICs which of them it would refuse to
// every claim, and what programs are on them, by connections of its own: it looks before the drivers are opened,
// and after. The function closes them.
func askDriver(o Options, look *inventory.Options) (func(), error) {
	if !slices.Contains(o.Drivers, slicecodec.DriverNet) {
		return func() {}, nil
	}
	d, err := newNetDriver(o, "", nil, nil)
	if err != nil {
		return nil, err
	}
	look.Refusals, look.RDMARefusals = d.Refusals, d.RDMARefusals
	return d.Close, nil
}

// inPod are the NICs of a record as the guard looks for them.
func inPod(r driver.Record) ([]guard.NIC, error) {
	moved, err := netdev.Moved(r)
	if err != nil {
		return nil, err
	}
	var nics []guard.NIC
	for _, m := range moved {
		if nic := guard.NICOf(m.NIC, m.Alone, m.GivenMAC); nic != nil {
			nics = append(nics, *nic)
		}
	}
	return nics, nil
}

// rdmaInPod is the RDMA device of a record of one device as the guard looks for it.
func rdmaInPod(r driver.Record) (*guard.RDMA, error) {
	held, err := netdev.HeldNICs(r)
	if err != nil || len(held) == 0 || held[0].RDMA == nil {
		return nil, err
	}
	if held[0].RDMA.Software {
		return &guard.RDMA{}, nil
	}
	found := &guard.RDMA{Device: held[0].RDMA.Name}
	if held[0].PCI != nil {
		found.Function = held[0].PCI.String()
	}
	return found, nil
}

// gpuSource is nil where another driver owns the GPUs.
func gpuSource(o Options) (inventory.GPUs, error) {
	if o.GPUMode != GPUSimulated {
		return nil, nil
	}
	facts, err := machine.OpenFacts(o.Machine)
	if err != nil {
		return nil, fmt.Errorf("--machine: %w", err)
	}
	return inventory.Simulated{Facts: facts.ModelGPUs(), StandIn: "bochs-display", Node: o.NodeName}, nil
}

// scanOptions say how to look. Where a machine file says what the host stands in for,
// NICs that are something else are stand-ins too.
func scanOptions(o Options) (inventory.Options, error) {
	virtual, err := filter.Interfaces(o.AllowInterfaces)
	if err != nil {
		return inventory.Options{}, fmt.Errorf("--allow-interfaces: %w", err)
	}
	look := inventory.Options{
		Names: pciids.Open(o.PCIIDs), Virtual: virtual, PhysicalFunctions: o.AllowPhysicalFunctions, KeepIPoIB: !o.MoveIBInterfaces,
		DataDirect: inventory.NewDataDirect(), DataDirectAsRoot: o.DataDirectAsRoot,
	}
	if o.Machine == "" {
		return look, nil
	}
	facts, err := machine.OpenFacts(o.Machine)
	if err != nil {
		return look, fmt.Errorf("--machine: %w", err)
	}
	look.Products = make(map[model.PCIAddress]inventory.Product, len(facts.NICs))
	look.PairedGPUs = map[model.PCIAddress]model.PCIAddress{}
	for i := range facts.NICs {
		n := &facts.NICs[i]
		id := n.Identity()
		if gpu := facts.PairedGPU(n.Address); gpu != nil {
			look.PairedGPUs[n.Address] = *gpu
		}
		look.Products[n.Address] = inventory.Product{ID: pciids.ID{Vendor: id.Vendor, Device: id.Device}, Model: n.Model}
	}
	return look, nil
}

// firstScan refuses a host that the options do not fit.
func firstScan(ctx context.Context, scans <-chan inventory.Snapshot, o Options) (inventory.Snapshot, error) {
	first, ok := <-scans
	if !ok {
		return first, context.Cause(ctx)
	}
	if first.Err != nil {
		return first, fmt.Errorf("scan the machine: %w", first.Err)
	}
	if o.GPUMode == GPUSimulated {
		return first, gpu.RefuseRealHardware(first.Machine)
	}
	return first, nil
}

// openSources says where to look at the machine. The links that the node cannot
// spare are followed until ctx ends.
func openSources(ctx context.Context, o Options, node *kube.AddressPoller) (inventory.Sources, func(), error) {
	gpus, err := gpuSource(o)
	if err != nil {
		return inventory.Sources{}, nil, err
	}
	own, err := netns.Open(netns.Self)
	if err != nil {
		return inventory.Sources{}, nil, err
	}
	links, err := inventory.OpenNetlink(own.Fd(), node.Addresses)
	if err != nil {
		return inventory.Sources{}, nil, errors.Join(err, own.Close())
	}
	sys, err := sysfs.Open(o.SysfsRoot)
	if err != nil {
		links.Close()
		return inventory.Sources{}, nil, errors.Join(err, own.Close())
	}
	closeAll := func() {
		links.Close()
		_ = own.Close()
		_ = sys.Close()
	}
	go node.Run(ctx, links.SetNodeAddresses)
	return inventory.Sources{Sys: sys, Links: links, GPUs: gpus}, closeAll, nil
}
