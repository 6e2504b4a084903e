// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package nvml makes the lab's stand-in for NVIDIA's libnvidia-ml.so.1, so that NVIDIA's
// own DRA driver runs where there is no GPU. The stand-in computes nothing: it answers
// from a table of a machine's GPUs, and NVML_ERROR_NOT_SUPPORTED to whatever the table
// does not hold, MIG among it.
//
// The table is a text file, etc/nvml-standin/gpus in the nearest folder above the library
// that has one, or the file that NVML_STANDIN_GPUS names. Lines that begin with # are
// comments; the others are
//
//	driver VERSION
//	cuda MAJOR.MINOR
//	gpu ADDRESS MINOR UUID VENDOR:DEVICE MIB ARCHITECTURE MAJOR.MINOR BRAND NAME
//
// with one space between columns, - for MIB where the memory is unknown, and spaces
// allowed in NAME only. nvmlInit refuses a table with any other line, and says on stderr
// which. A library that is in use does not read the table again.
//
// Lines that somebody appends to the file events beside the table, or to the one that
// NVML_STANDIN_EVENTS names, are events for the sets that exist then:
//
//	xid ADDRESS NUMBER
//	lost ADDRESS
//
// A lost GPU ends one wait of every set, and is NVML_ERROR_GPU_IS_LOST to all who ask for
// it from then on: in a process that waits for events, and in those that begin later.
package nvml

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/model"
)

const (
	// LibraryName is the name by which programs load NVML.
	LibraryName = "libnvidia-ml.so.1"
	// TablePath and EventsPath are where the library looks, below the folder that is the
	// root of the driver for it.
	TablePath  = "etc/nvml-standin/gpus"
	EventsPath = "etc/nvml-standin/events"
	// DriverVersion and CUDAVersion are those of the tutorial's machine.
	DriverVersion = "580.126.20"
	CUDAVersion   = "13.0"
)

// product is what a driver of DriverVersion says of a product, and a machine file may not.
type product struct {
	memoryMiB uint64
	brand     string
}

// products are by name. The memory is what nvidia-smi shows, less than what the product is
// sold by where firmware keeps some; the brand Tesla is Nvidia since R470.
var products = map[string]product{
	"Tesla T4":              {15360, "Nvidia"},
	"NVIDIA A100-SXM4-40GB": {40960, "Nvidia"},
	"NVIDIA A100-SXM4-80GB": {81920, "Nvidia"},
	"NVIDIA H100 80GB HBM3": {81559, "Nvidia"},
	"NVIDIA H200":           {143771, "Nvidia"},
}

// Table is the table of a machine's GPUs by NVIDIA. The node's name goes into the UUIDs,
// so that two nodes with the same machine file have GPUs of their own.
func Table(f *machine.Facts, node string) ([]byte, error) {
	devices := map[model.PCIAddress]*machine.Device{}
	for i := range f.GPUs {
		devices[f.GPUs[i].Address] = &f.GPUs[i]
	}
	gpus := f.ModelGPUs()
	if len(gpus) == 0 {
		return nil, fmt.Errorf("table of the stand-in for NVML: machine %s has no GPU by NVIDIA", f.Name)
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, "# What the stand-in for %s answers: machine %s, node %s.\n", LibraryName, f.Name, node)
	fmt.Fprintf(&text, "driver %s\ncuda %s\n", DriverVersion, CUDAVersion)
	var errs []error
	for i := range gpus {
		line, err := gpuLine(&gpus[i], devices[gpus[i].PCI], f.Name+" "+node)
		if err != nil {
			errs = append(errs, fmt.Errorf("table of the stand-in for NVML: machine %s: gpus %s: %w", f.Name, devices[gpus[i].PCI].Label(), err))
			continue
		}
		fmt.Fprintln(&text, line)
	}
	return text.Bytes(), errors.Join(errs...)
}

// gpuLine is the line of one GPU. NVIDIA's DRA driver publishes no GPU of a node where it
// lacks a fact of one, except for the memory, so neither is there a table.
func gpuLine(g *model.GPU, d *machine.Device, owner string) (string, error) {
	known := products[g.ProductName]
	brand := known.brand
	if g.Brand != nil {
		brand = *g.Brand
	}
	if g.Architecture == nil || g.ComputeCapability == nil || brand == "" {
		return "", fmt.Errorf("model %q: its architecture, compute capability or brand is unknown", g.ProductName)
	}
	if g.PCI.Function != 0 {
		return "", fmt.Errorf("bdf %s: NVML knows function 0 only", g.PCI)
	}
	memory := "-"
	switch {
	case g.MemoryBytes != nil:
		memory = fmt.Sprint(*g.MemoryBytes >> 20)
	case known.memoryMiB != 0:
		memory = fmt.Sprint(known.memoryMiB)
	}
	id := d.Identity()
	// An API version has three parts, NVML's capability two.
	capability := strings.Join(strings.Split(*g.ComputeCapability, ".")[:2], ".")
	return fmt.Sprintf("gpu %s %d %s %04x:%04x %s %s %s %s %s", g.PCI, g.Index, gpuUUID(owner, g.PCI), id.Vendor, id.Device,
		memory, *g.Architecture, capability, brand, g.ProductName), nil
}

// gpuUUID is the same each time for a GPU of an owner, and another's for no other.
func gpuUUID(owner string, at model.PCIAddress) string {
	return "GPU-" + uuid.NewSHA1(uuid.NameSpaceOID, []byte("plumbline NVML stand-in "+owner+" "+at.String())).String()
}
