// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"io/fs"
)

// Check is one question to a host.
type Check struct {
	// Name is stable: machines and people name checks by it.
	Name string
	// About says in a few words what it looks at.
	About    string
	Severity Severity
	// run finds what there is to say; nothing where the question makes no sense on
	// the host.
	run func(h Host, r *report)
}

// Checks are all checks, in the order in which a host is made ready: what does not work
// is told before what is slow.
func Checks() []Check {
	return []Check{
		{"rdma-modules", "kernel modules of RDMA", Functional, rdmaModules},
		{"dma-buf", "GPU memory for NICs by DMA-BUF, or by nvidia_peermem", Functional, dmaBuf},
		{"rdma-devices", "character devices of RDMA", Functional, rdmaDevices},
		{"rdma-ports", "state of RDMA ports", Functional, rdmaPorts},
		{"links", "carrier of interfaces", Functional, links},
		{"arp", "answers to ARP of NICs on one network", Functional, arp},
		{"memlock", "memory that containers may lock", Functional, memlock},
		{"runtime", "NRI of the container runtime", Functional, runtime},
		{"pcie-link", "speed and width of PCIe links", Performance, pcieLinks},
		{"max-read-request", "size of PCIe reads of NICs", Performance, maxReadRequest},
		{"relaxed-ordering", "relaxed ordering of NICs' writes", Performance, relaxedOrdering},
		{"acs", "redirection of traffic between GPU and NIC", Performance, acs},
		{"iommu", "translation of devices' addresses", Performance, iommu},
		{"pairs", "a NIC beside each GPU", Performance, pairs},
		{"numa", "NUMA nodes of devices", Performance, numa},
		{"numa-balancing", "pages that the kernel moves by itself", Performance, numaBalancing},
		{"mtu", "MTU of RDMA NICs", Performance, mtu},
		{"rdma-namespaces", "whether RDMA devices belong to one network namespace", Information, rdmaNamespaces},
		{"firmware", "firmware of like NICs", Information, firmware},
		{"pcie-errors", "errors that PCIe devices counted", Information, pcieErrors},
	}
}

// Run asks every check, and returns what they find, in their order.
func Run(h Host) []Finding {
	var all []Finding
	for _, c := range Checks() {
		r := &report{check: c}
		c.run(h, r)
		all = append(all, r.findings...)
	}
	return all
}

// report collects the findings of one check.
type report struct {
	check    Check
	findings []Finding
}

func (r *report) add(f Finding) {
	f.Check, f.Severity = r.check.Name, r.check.Severity
	r.findings = append(r.findings, f)
}

func (r *report) ok(subject, source, found string) {
	r.add(Finding{Verdict: OK, Subject: subject, Source: source, Found: found})
}

func (r *report) wrong(subject, source, found, want, fix string) {
	r.add(Finding{Verdict: Wrong, Subject: subject, Source: source, Found: found, Want: want, Fix: fix})
}

// unknown says why nobody can tell.
func (r *report) unknown(subject, source string, err error) {
	found, fix := err.Error(), ""
	switch {
	case errors.Is(err, fs.ErrPermission):
		found, fix = "may not be read", "run as root"
	case errors.Is(err, fs.ErrNotExist):
		found = "is not there"
	}
	r.add(Finding{Verdict: Unknown, Subject: subject, Source: source, Found: found, Fix: fix})
}
