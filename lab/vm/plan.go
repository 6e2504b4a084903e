// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"fmt"
	"maps"
	"runtime"

	"plumbline.dev/plumbline/lab/vm/guest"
	"plumbline.dev/plumbline/lab/vm/qemu"
	"plumbline.dev/plumbline/lab/vm/shape"
)

// plan returns what the guest shall make of itself.
func (c *Config) plan(modules []string) guest.Plan {
	p := guest.Plan{
		Hostname:      c.Name,
		Modules:       modules,
		ModuleOptions: maps.Clone(moduleOptions),
		Management: guest.Management{
			MAC: qemu.MAC(0), Name: ManagementInterface, Address: GuestAddress + "/24", Gateway: HostAddress,
		},
		NICs:    NICs(c.Shape),
		NUMA:    nodesUnlikeRoot(c.Shape),
		Sysctls: maps.Clone(DefaultSysctls),
	}
	maps.Copy(p.ModuleOptions, c.ModuleOptions)
	// Go's runtime would use every virtual CPU, and its idle threads would
	// spin on the few real ones: a fifth of the guest's work (seen).
	parallel := fmt.Sprintf("GOMAXPROCS=%d", max(2, min(runtime.NumCPU(), c.CPUs)))
	for _, service := range c.Services {
		service.Env = append([]string{parallel}, service.Env...)
		p.Services = append(p.Services, service)
	}
	maps.Copy(p.Sysctls, c.Sysctls)
	return p
}

// moduleOptions save the guest seconds. Nobody looks at the stand-ins for GPUs,
// so they need no text consoles; and the driver of the NICs sleeps while it
// talks to each, so it may talk to all at once.
var moduleOptions = map[string]string{"drm_kms_helper": "fbdev_emulation=0", "e1000e": "async_probe"}

// NIC is one of the machine's NICs as the guest has it.
type NIC = guest.NIC

// NICs returns the machine's NICs as the guest has them. A NIC without an
// interface name in the machine file is called fabricN, N its place among the
// NICs.
func NICs(s *Shape) []NIC {
	var nics []NIC
	// Subnets by the clouds' networks, and how many NICs each has.
	subnets, members := map[string]int{}, map[int]int{}
	for _, d := range s.Devices {
		if d.Kind != shape.NIC {
			continue
		}
		n := NIC{PCI: d.Address.String(), Name: d.Interface, MTU: d.MTU, RDMA: d.RDMA}
		if n.Name == "" {
			n.Name = fmt.Sprintf("fabric%d", len(nics))
		}
		// A subnet of its own for each, as every rail of a fabric has, but for those that the
		// machine file has in one network.
		subnet, known := subnets[d.Network]
		if !known || d.Network == "" {
			subnet = len(nics)
			subnets[d.Network] = subnet
		}
		n.Address = fmt.Sprintf("10.33.%d.%d/24", subnet, 2+members[subnet])
		members[subnet]++
		nics = append(nics, n)
	}
	return nics
}

// nodesUnlikeRoot are the NUMA nodes of devices whose root reports another or none.
func nodesUnlikeRoot(s *shape.Shape) map[string]int {
	ofRoot := map[string]*int{}
	for _, r := range s.Roots {
		if r.Bus != 0 { // q35's own root reports none
			ofRoot[r.Name()] = r.Node
		}
	}
	nodes := map[string]int{}
	for _, d := range s.Devices {
		root := ofRoot[d.Root]
		if d.Node != nil && (root == nil || *root != *d.Node) {
			nodes[d.Address.String()] = *d.Node
		}
	}
	return nodes
}
