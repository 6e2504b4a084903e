// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev/nccl"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/nccltopo"
)

// Where a container has its topology file, and the variable that says so.
const (
	topologyPath = "/run/plumbline/nccl-topology.xml"
	topologyEnv  = "NCCL_TOPO_FILE"
)

// environment is what a container is told for NCCL of the NICs that it has by records:
// of those whose parameters ask for it, together and in the records' order. It is nothing
// where none does.
func (v *rdmaView) environment(held []driver.Record) (driver.ContainerEdits, error) {
	var nics []nccl.NIC
	var devices []model.PCIAddress
	for _, r := range held {
		for _, dev := range r.Devices {
			plan, err := readBrief(dev)
			if err != nil || plan.NCCL == nil {
				continue // what cannot be read refused the container before
			}
			nic, err := v.seen(plan)
			if err != nil {
				return driver.ContainerEdits{}, fmt.Errorf("claim %s, device %s: environment: %w", r.Claim, dev.Device, err)
			}
			nics = append(nics, nic)
			if plan.NIC.PCI != nil {
				devices = append(devices, *plan.NIC.PCI)
			}
			devices = append(devices, plan.NCCL.GPUs...)
		}
	}
	if len(nics) == 0 {
		return driver.ContainerEdits{}, nil
	}
	env, why := nccl.Environment(nics)
	edits := driver.ContainerEdits{Env: env, Files: v.topology(devices)}
	if why != "" {
		edits.Notes = []driver.Note{{
			Env: nccl.GIDIndexEnv, Text: nccl.GIDIndexEnv + " is left out, and NCCL (2.21 and newer) looks for one itself: " + why,
		}}
	}
	return edits, nil
}

// topology is the file that names the devices, their roots and NUMA nodes; none where
// there is none of them on a PCI bus.
func (v *rdmaView) topology(devices []model.PCIAddress) []driver.File {
	if v.machine == nil || len(devices) == 0 {
		return nil
	}
	m := v.machine()
	slices.SortFunc(devices, model.PCIAddress.Compare)
	devices = slices.DeleteFunc(slices.Compact(devices), func(a model.PCIAddress) bool { return m.Function(a) == nil })
	if len(devices) == 0 {
		return nil
	}
	content := nccltopo.FromMachine(m, devices).Encode()
	// Containers of one claim may have other devices of it, and so another file.
	sum := sha256.Sum256(content)
	return []driver.File{{
		Name: "nccl-topology-" + hex.EncodeToString(sum[:8]) + ".xml", Content: content, Destination: topologyPath, Env: topologyEnv,
	}}
}

// seen is a plan's NIC as the pod sees it.
func (v *rdmaView) seen(plan Plan) (nccl.NIC, error) {
	var nic nccl.NIC
	link, addresses, err := v.interfaceOf(plan)
	if err != nil {
		return nic, err
	}
	if link != nil {
		nic.Interface = link.Name
	}
	ports, err := v.portsOf(plan, link, addresses)
	if err != nil {
		return nic, err
	}
	for _, p := range ports {
		port := nccl.Port{Device: p.device, Number: p.number, Ethernet: plan.NIC.RDMA.LinkLayer != nil && *plan.NIC.RDMA.LinkLayer == "Ethernet"}
		for _, g := range p.gids {
			port.GIDs = append(port.GIDs, nccl.GID{Index: g.Index, IPv4: g.Address.Is4()})
		}
		nic.Ports = append(nic.Ports, port)
	}
	return nic, nil
}

// interfaceOf is the interface of a plan in the pod, with its addresses; nil where none
// moved there, or the pod has removed it.
func (v *rdmaView) interfaceOf(plan Plan) (*rtnl.Link, []rtnl.Prefix, error) {
	if plan.Pod == nil {
		return nil, nil, nil
	}
	if err := v.open(); err != nil {
		return nil, nil, err
	}
	link, err := v.conn.Find(plan.identity())
	if err != nil || link == nil {
		return nil, nil, err
	}
	addresses, err := v.conn.PrefixesOf(link.Index)
	return link, addresses, err
}
