// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"fmt"
	"io/fs"
	"sync"

	"plumbline.dev/plumbline/internal/host/pciids"
	"plumbline.dev/plumbline/internal/host/sysfs"
	"plumbline.dev/plumbline/internal/model"
)

// Problem is one thing that was left out of a Machine, and why.
type Problem = sysfs.Problem

// Sources are what a scan reads.
type Sources struct {
	// Sys is /sys, or a rendered tree of the same shape.
	Sys fs.FS
	// Links is nil where there is no netlink, as with a rendered tree: then sysfs
	// alone is read, and nothing is withheld.
	Links Links
	// GPUs is nil where another driver owns the GPUs.
	GPUs GPUs
}

// Options are the parameters of a scan.
type Options struct {
	// Name and Architecture go into the Machine as they are.
	Name, Architecture string
	// Names finds the names of PCI devices; nil: they have none.
	Names *pciids.File
	// Products are the products of a machine file, by address: a NIC of another
	// identity there is marked as a stand-in.
	Products map[model.PCIAddress]Product
	// PairedGPUs are the GPUs that NICs belong to by what others than the kernel say, such
	// as a topology file; nil: nobody does.
	PairedGPUs map[model.PCIAddress]model.PCIAddress
	// DataDirect keeps whose Data Direct functions are, from scan to scan; nil: nobody
	// asks the hardware.
	DataDirect *DataDirect
	// DataDirectAsRoot has claims compare NICs by the root of their Data Direct function,
	// where they have one.
	DataDirectAsRoot bool
	// Simulated marks every NIC, and says as what; empty on a real machine.
	Simulated string
	// Virtual says which virtual interfaces become NICs; nil: none.
	Virtual func(model.Interface) bool
	// KeepIPoIB leaves network interfaces of InfiniBand to the host: their NICs are
	// RDMA devices alone.
	KeepIPoIB bool
	// PhysicalFunctions also offers those with virtual functions, whose links go
	// down when the physical function moves.
	PhysicalFunctions bool
	// Refusals says why the driver would refuse to move interfaces whatever a claim
	// says, and which eBPF programs are on them, by ifindex; nil: there are none. It
	// is called for those that nothing else withholds.
	Refusals func(indexes []int) (refusals map[int]error, programs map[int]model.Programs, err error)
	// RDMARefusals says why the driver would refuse RDMA devices with IPoIB interfaces, by
	// their names; nil: it would none. It is called only where there are such devices.
	RDMARefusals func(nics []*model.NIC) (refusals map[string]error, err error)
	// Lost is called by Watch when the kernel dropped events, before the next scan;
	// it may be nil.
	Lost func()
}

// Scan reads the machine once. Problems are devices and facts left out, each named by one
// line; the error is for what leaves no machine at all: no /sys, or netlink
// that does not answer, without which an uplink could not be told from a NIC
// that is free.
func Scan(ctx context.Context, src Sources, opt Options) (*model.Machine, []Problem, error) {
	if _, err := fs.Stat(src.Sys, "devices"); err != nil {
		return nil, nil, fmt.Errorf("read the machine: want a directory like /sys: %w", err)
	}
	s := scan{sys: src.Sys, opt: opt, kept: map[string]string{}}
	// At the same time: on a node full of pods netlink takes as long as the rest.
	var links []LinkFacts
	var failed error
	var asked sync.WaitGroup
	if src.Links != nil {
		asked.Go(func() { links, failed = src.Links.Links(ctx) })
	}
	s.readCPUs()
	s.readPCI()
	asked.Wait()
	if failed != nil {
		return nil, nil, fmt.Errorf("list network links: %w", failed)
	}
	if src.Links != nil {
		s.links = byName(links)
		s.withheld = protect(links)
	}
	s.readNICs()
	if err := s.withholdRefused(); err != nil {
		return nil, nil, err
	}
	s.markStandIns()
	s.nameFunctions()
	s.pairGPUs()
	if err := s.readGPUs(ctx, src.GPUs); err != nil {
		return nil, nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("read the machine: %w", err)
	}
	s.parts.Name, s.parts.Architecture = opt.Name, opt.Architecture
	m, err := model.New(s.parts)
	if err != nil {
		return nil, nil, fmt.Errorf("put the machine together: %w", err)
	}
	return m, s.problems, nil
}

// scan is one Scan in progress.
type scan struct {
	sys      fs.FS
	opt      Options
	links    map[string]LinkFacts // nil without netlink
	withheld map[int]string       // reason by ifindex
	parts    model.Machine
	problems []Problem
	// kept are the interfaces that stay on the host though their NICs are offered, by
	// the directory of the device that they hang from.
	kept map[string]string
	// functions are the indexes of parts.Functions by address.
	functions map[model.PCIAddress]int
}

func (s *scan) problem(path, format string, args ...any) {
	s.problems = append(s.problems, Problem{Path: path, Err: fmt.Errorf(format, args...)})
}

func (s *scan) add(problems []Problem) { s.problems = append(s.problems, problems...) }

// node returns a NUMA node's id if that node exists. Firmware is known to name
// nodes that are not there; such a device has no node.
func (s *scan) node(path string, id *int) *int {
	if id == nil {
		return nil
	}
	for i := range s.parts.NUMANodes {
		if s.parts.NUMANodes[i].ID == *id {
			return id
		}
	}
	s.problem(path, "numa_node names node %d, which is not online: taken as unknown", *id)
	return nil
}

func (s *scan) readGPUs(ctx context.Context, source GPUs) error {
	if source == nil {
		return nil
	}
	files, problems := sysfs.ReadDRM(s.sys)
	s.add(problems)
	gpus, problems, err := source.GPUs(ctx, s.parts.Functions, files)
	if err != nil {
		return fmt.Errorf("list GPUs: %w", err)
	}
	s.add(problems)
	for i := range gpus {
		gpus[i].NUMANode = s.node("GPU "+gpus[i].PCI.String(), gpus[i].NUMANode)
	}
	s.parts.GPUs = gpus
	return nil
}
