// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"io/fs"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/model"
)

// Check is one question to a host.
type Check struct {
	// Name is stable: machines and people name checks by it.
	Name string
	// About says in a few words what it looks at.
	About    string
	Severity hosts.Severity
	// run finds what there is to say; nothing where the question makes no sense on
	// the host.
	run func(h Host, r *report)
}

// Checks are all checks, in the order in which a host is made ready: what does not work
// is told before what is slow.
func Checks() []Check {
	return []Check{
		{"rdma-modules", "kernel modules of RDMA", hosts.Functional, rdmaModules},
		{"gpu-driver", "kernel drivers of GPUs", hosts.Functional, gpuDriver},
		{"gpu-bar", "windows into GPUs' memory", hosts.Functional, gpuBAR},
		{"dma-buf", "GPU memory for NICs by DMA-BUF, or by nvidia_peermem", hosts.Functional, dmaBuf},
		{"rdma-devices", "character devices of RDMA", hosts.Functional, rdmaDevices},
		{"rdma-ports", "state of RDMA ports", hosts.Functional, rdmaPorts},
		{"rdma-limit", "limits of RDMA on pods", hosts.Functional, rdmaLimit},
		{"links", "carrier of interfaces", hosts.Functional, links},
		{"gid", "RoCE addresses (GIDs) of interfaces' addresses", hosts.Functional, gid},
		{"arp", "answers to ARP of NICs on one network", hosts.Functional, arp},
		{"memlock", "memory that containers may lock", hosts.Functional, memlock},
		{"runtime", "NRI and CDI of the container runtime, DRA of the kubelet", hosts.Functional, runtime},
		{"pcie-link", "speed and width of PCIe links", hosts.Performance, pcieLinks},
		{"max-read-request", "size of PCIe reads of NICs", hosts.Performance, maxReadRequest},
		{"max-payload", "size of PCIe packets from GPUs and NICs up to their root", hosts.Performance, maxPayload},
		{"relaxed-ordering", "relaxed ordering of NICs' writes", hosts.Performance, relaxedOrdering},
		{"acs", "redirection of traffic between GPU and NIC", hosts.Performance, acs},
		{"ats", "address translation by GPUs and NICs themselves", hosts.Performance, ats},
		{"iommu", "translation of devices' addresses", hosts.Performance, iommu},
		{"pairs", "a NIC beside each GPU", hosts.Performance, pairs},
		{"numa", "NUMA nodes of devices", hosts.Performance, numa},
		{"numa-balancing", "pages that the kernel moves by itself", hosts.Performance, numaBalancing},
		{"mtu", "MTU of RDMA NICs", hosts.Performance, mtu},
		{"qos", "priorities of RoCE packets of like NICs", hosts.Performance, qos},
		{"rdma-namespaces", "whether RDMA devices belong to one network namespace (told, never wrong)", hosts.Information, rdmaNamespaces},
		{"hugepages", "huge pages beside GPUs and NICs", hosts.Information, hugePages},
		{"data-direct", "whose Data Direct functions there are", hosts.Information, dataDirect},
		{"firmware", "firmware of like NICs", hosts.Information, firmware},
		{"kernel-log", "messages of the kernel about GPUs, NICs and their modules", hosts.Information, kernelLog},
		{"driver-reload", "what hangs from the drivers of NICs (told, never wrong)", hosts.Information, driverReload},
		{"pcie-errors", "errors that PCIe devices counted", hosts.Information, pcieErrors},
		{"port-errors", "errors that RDMA ports counted", hosts.Information, portErrors},
	}
}

// Run asks every check, and returns what they find, in their order.
func Run(h Host) []hosts.Finding {
	h.spaces, h.programs, h.identities = map[model.PCIAddress]registers{}, map[string][]string{}, map[model.PCIAddress]identity{}
	var all []hosts.Finding
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
	findings []hosts.Finding
}

func (r *report) add(f hosts.Finding) {
	f.Check, f.Severity = r.check.Name, r.check.Severity
	r.findings = append(r.findings, f)
}

func (r *report) ok(subject, source, found string) {
	r.add(hosts.Finding{Verdict: hosts.OK, Subject: subject, Source: source, Found: found})
}

func (r *report) wrong(subject, source, found, want, fix string) {
	r.add(hosts.Finding{Verdict: hosts.Wrong, Subject: subject, Source: source, Found: found, Want: want, Fix: fix})
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
	r.add(hosts.Finding{Verdict: hosts.Unknown, Subject: subject, Source: source, Found: found, Fix: fix})
}
