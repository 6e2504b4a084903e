// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/verify/collect"
	"plumbline.dev/plumbline/internal/verify/expect"
)

// The kinds of RDMA's device files.
const (
	verbsFile = "uverbs"
	cmFile    = "rdma_cm"
)

// rdma looks for the RDMA device of a NIC, where the driver says that it gave one: in the
// pod's network namespace, with a GID, and its files in the containers.
func (e *evaluator) rdma(claim *expect.Claim, d *expect.Device) {
	seen := e.observed.RDMA
	if !d.RDMAGiven || d.Function() == nil || seen == nil {
		return
	}
	f := Finding{Claim: claim.Name, What: fmt.Sprintf("%s has its RDMA device", d.Request), placeless: true}
	if seen.Err != nil {
		f.State, f.Code, f.Why = StateUnknown, NotRead, seen.Err.Error()
		e.add(f)
		return
	}
	there := devicesAt(seen.Devices, d)
	files := filesAt(seen.Files, d)
	switch {
	case len(there) > 0:
	case len(files) == 0:
		// One made of software ended as its interface moved, and nobody has to make another.
		f.State, f.Why = StateNote, fmt.Sprintf("the node shows none of %s: it is of software, or its driver is gone", d.Function())
		e.add(f)
		return
	default:
		e.missingRDMA(f, d, seen)
		return
	}
	before := len(e.findings)
	words := []string{there[0].Name}
	words = append(words, e.gid(f, d, there)...)
	for _, container := range e.having(claim.Name, d) {
		words = append(words, e.rdmaFiles(f, d, container, files)...)
	}
	if !slices.ContainsFunc(e.findings[before:], func(f Finding) bool { return f.State != StateNote }) {
		f.State, f.Why = StateOK, strings.Join(words, ", ")
		e.add(f)
	}
}

// devicesAt are the RDMA devices of a NIC. Those of subfunctions are at the address of
// their PCI function, so that the published name decides between several.
func devicesAt(all []collect.RDMADevice, d *expect.Device) []collect.RDMADevice {
	var at, named []collect.RDMADevice
	for _, r := range all {
		if r.PCI != *d.Function() {
			continue
		}
		at = append(at, r)
		if r.Name == d.RDMADevice {
			named = append(named, r)
		}
	}
	if len(named) > 0 {
		return named
	}
	return at
}

// filesAt are the files that the node has for the RDMA device of a NIC, by path.
func filesAt(all map[string]collect.RDMAFile, d *expect.Device) []collect.RDMAFile {
	var at, named []collect.RDMAFile
	for _, f := range all {
		if !isAt(f, *d.Function()) {
			continue
		}
		at = append(at, f)
		if f.Device == d.RDMADevice {
			named = append(named, f)
		}
	}
	if len(named) > 0 {
		at = named
	}
	slices.SortFunc(at, func(a, b collect.RDMAFile) int { return strings.Compare(a.Path, b.Path) })
	return at
}

func isAt(f collect.RDMAFile, a model.PCIAddress) bool { return f.PCI != nil && *f.PCI == a }

// missingRDMA flags an RDMA device that the node has, and the pod does not see.
func (e *evaluator) missingRDMA(f Finding, d *expect.Device, seen *collect.RDMA) {
	var there []string
	for _, r := range seen.Devices {
		there = append(there, r.Name+" at "+r.PCI.String())
	}
	observed := "no RDMA device"
	if len(there) > 0 {
		observed = strings.Join(there, ", ")
	}
	why := fmt.Sprintf("the RDMA device of %s is not in the pod's network namespace, which has %s: delete the pod, so that another gets it", d.Function(), observed)
	f.wrong(RDMAMissing, why, Difference{Of: deviceWords(d), Attribute: "RDMA device", Claimed: "that of " + d.Function().String(), Observed: observed})
	e.add(f)
}

// gid wants a RoCE v2 GID of an address of the interface, by which every connection is
// made, where plumbline-guard would want one: the device has a table of them, and the
// interface still has an address that its driver gave it. It returns what there is.
func (e *evaluator) gid(f Finding, d *expect.Device, there []collect.RDMADevice) []string {
	name, _ := e.interfaceOf(d)
	roce := slices.ContainsFunc(there, func(r collect.RDMADevice) bool { return r.RoCE })
	if !roce || name == "" || len(d.Addresses) == 0 {
		return nil
	}
	seen := e.observed.RDMA
	if seen.AddressesErr != nil {
		f.State, f.Code, f.Why = StateUnknown, NotRead, seen.AddressesErr.Error()
		e.add(f)
		return nil
	}
	wanted := slices.DeleteFunc(slices.Clone(d.Addresses), func(a netip.Addr) bool { return !seen.Addresses[a] })
	if len(wanted) == 0 {
		return nil // the pod has taken it off the interface
	}
	found, others := e.roceGID(there, name, wanted)
	if found != "" {
		return []string{found}
	}
	addresses := make([]string, len(wanted))
	for i, a := range wanted {
		addresses[i] = a.String()
	}
	observed := "none"
	if len(others) > 0 {
		observed = "only " + strings.Join(others, ", ")
	}
	claimed := strings.Join(addresses, " or ")
	why := fmt.Sprintf("RDMA device %s has no %s GID of %s of interface %s (%s): no connection can be made; delete the pod, and see whether the interface is up and the table full",
		there[0].Name, collect.RoCEv2, claimed, name, observed)
	f.wrong(GIDMissing, why, Difference{Of: deviceWords(d), Attribute: collect.RoCEv2 + " GID", Claimed: claimed, Observed: observed})
	e.add(f)
	return nil
}

// roceGID is in words a GID of an interface's address by which connections are made; others
// are those of other types.
func (e *evaluator) roceGID(there []collect.RDMADevice, name string, wanted []netip.Addr) (found string, others []string) {
	for _, r := range there {
		for _, g := range r.GIDs {
			if g.NetDevice != nil && *g.NetDevice != name || g.Type == nil {
				continue
			}
			if *g.Type == collect.RoCEv2 && e.observed.RDMA.Addresses[g.Address] && g.Address.IsGlobalUnicast() {
				return fmt.Sprintf("%s GID of %s", *g.Type, g.Address), nil
			}
			if slices.Contains(wanted, g.Address) {
				others = append(others, fmt.Sprintf("%s of type %s", g.Address, *g.Type))
			}
		}
	}
	return "", others
}

// having are the running containers that have a device: those that name its request, or
// all where none of the pod names the claim. Those of which nothing is known are left out:
// readable says so.
func (e *evaluator) having(claim string, d *expect.Device) []*collect.Container {
	named := e.expected.Named[claim]
	var list []*collect.Container
	for i := range e.observed.Containers {
		container := &e.observed.Containers[i]
		p := e.expectedContainer(container.ID)
		if p == nil || container.Err != nil || named && !p.Names(claim, d.Request) {
			continue
		}
		list = append(list, container)
	}
	return list
}

// rdmaFiles wants the files of an RDMA device in a container, of its verbs and those that
// were asked for, and no others of it. It returns those that are there.
func (e *evaluator) rdmaFiles(f Finding, d *expect.Device, container *collect.Container, files []collect.RDMAFile) []string {
	if container.FilesErr != nil {
		return nil
	}
	missing, unasked, there := compareFiles(d, container, files)
	if e.expectedContainer(container.ID).Privileged || !d.LimitsRDMA {
		unasked = nil
	}
	of := "container " + container.Name
	if len(missing) > 0 {
		list := strings.Join(missing, ", ")
		wrong := f
		wrong.wrong(RDMAMissing, fmt.Sprintf("%s has no %s: it was made while no plumbline-agent ran, or somebody removed it; delete the pod", of, list),
			Difference{Of: of, Attribute: "RDMA device files", Claimed: list, Observed: "not there"})
		e.add(wrong)
	}
	if len(unasked) > 0 {
		list := strings.Join(unasked, ", ")
		wrong := f
		wrong.wrong(DeviceNotClaimed, fmt.Sprintf("%s has %s, by which the fabric can be reconfigured, and the claim does not ask for it (rdma.umad, rdma.issm): find out who gave it", of, list),
			Difference{Of: of, Attribute: "RDMA management files", Claimed: "none", Observed: list})
		e.add(wrong)
	}
	if d.LimitsRDMA && len(there) > 0 && e.lacksCM(container) {
		e.add(Finding{State: StateNote, Claim: f.Claim, What: of, Why: "it has no /dev/infiniband/rdma_cm, which the node has by now: a container made from now on gets it"})
	}
	return there
}

// asksFor says whether a claim asks for an RDMA device's files of a kind.
func asksFor(n expect.Network, kind string) bool {
	return kind == verbsFile || kind == "umad" && n.UMAD || kind == "issm" && n.ISSM
}

// compareFiles compares the files that the node has for an RDMA device with a container's:
// missing are the node's paths, unasked the container's, there those in words.
func compareFiles(d *expect.Device, container *collect.Container, files []collect.RDMAFile) (missing, unasked, there []string) {
	kinds := map[string]bool{} // that the container has
	for _, file := range files {
		for _, c := range container.RDMAFiles {
			switch {
			case c.Path != file.Path:
			case asksFor(d.Network, file.Kind):
				kinds[file.Kind], there = true, append(there, c.In+" in "+container.Name)
			default:
				unasked = append(unasked, c.In)
			}
		}
	}
	// Of several devices at one function that the name does not tell apart, one is enough.
	for _, file := range files {
		if asksFor(d.Network, file.Kind) && !kinds[file.Kind] {
			missing = append(missing, file.Path)
		}
	}
	return missing, unasked, there
}

// lacksCM says whether the node has the connection manager, and a container has no file of
// it. The kernel does not say since when the node has it.
func (e *evaluator) lacksCM(container *collect.Container) bool {
	for _, file := range e.observed.RDMA.Files {
		if file.Kind == cmFile {
			return !slices.ContainsFunc(container.RDMAFiles, func(c collect.ContainerRDMAFile) bool { return c.Kind == cmFile })
		}
	}
	return false
}

// lockedMemory wants containers with RDMA devices to be able to lock any amount of memory,
// as the agent makes them where nobody else set a limit: what the device reads and writes
// is pinned.
func (e *evaluator) lockedMemory() {
	if e.observed.RDMA == nil {
		return
	}
	done := map[string]bool{}
	for _, claim := range e.expected.Claims {
		for i := range claim.Devices {
			d := &claim.Devices[i]
			if !d.RDMAGiven || !d.LimitsRDMA || d.Admin {
				continue
			}
			for _, container := range e.having(claim.Name, d) {
				if !done[container.ID] {
					done[container.ID] = true
					e.lockedBy(container, claim.Name)
				}
			}
		}
	}
}

func (e *evaluator) lockedBy(container *collect.Container, claim string) {
	f := Finding{State: StateOK, Claim: claim, What: fmt.Sprintf("container %s may lock any amount of memory", container.Name), Why: "unlimited", placeless: true}
	switch {
	case container.MemlockErr != nil:
		f.State, f.Code, f.Why = StateUnknown, NotRead, container.MemlockErr.Error()
	case container.Memlock != collect.Unlimited && !container.MemlockInherited:
		// Which the agent leaves as it is.
		f.State, f.Why = StateNote, fmt.Sprintf("RLIMIT_MEMLOCK is %d bytes, and RDMA fails beyond that: the container's runtime, another NRI plugin or its program (ulimit -l) set it", container.Memlock)
	case container.Memlock != collect.Unlimited:
		is := fmt.Sprintf("%d bytes", container.Memlock)
		f.wrong(MemlockLimited, fmt.Sprintf("RLIMIT_MEMLOCK is %s, the runtime's own: RDMA fails beyond that; the container was made while no plumbline-agent ran: delete the pod", is),
			Difference{Of: "container " + container.Name, Attribute: "RLIMIT_MEMLOCK", Claimed: "unlimited", Observed: is})
	}
	e.add(f)
}
