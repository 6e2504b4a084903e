// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package nvml makes the lab's stand-in for NVIDIA's libnvidia-ml.so.1, so that NVIDIA's
// own DRA driver runs where there is no GPU. The stand-in computes nothing: it answers
// from a table of a machine's GPUs, and NVML_ERROR_NOT_SUPPORTED to whatever the table
// does not hold.
//
// The table is a text file, etc/nvml-standin/gpus in the nearest folder above the library
// that has one, or the file that NVML_STANDIN_GPUS names. Lines that begin with # are
// comments; the others are
//
//	driver VERSION
//	cuda MAJOR.MINOR
//	gpu ADDRESS MINOR UUID VENDOR:DEVICE MIB ARCHITECTURE MAJOR.MINOR BRAND NAME
//	mig PROFILE NUMBER ID SLICES INSTANCES SMS COPY DECODERS JPEG OFA MIB SIZE STARTS NAME
//
// with one space between columns, - for MIB where the memory is unknown, and spaces
// allowed in NAME only. nvmlInit refuses a table with any other line, and says on stderr
// which. A library that is in use does not read the table again.
//
// A line mig is a profile of MIG that GPUs called NAME have: PROFILE as nvidia-smi calls it,
// NVML's NUMBER of it, the product's own ID, how many SLICES of compute an instance has and
// how many INSTANCES there may be, an instance's multiprocessors, engines and memory, and
// the SIZE in slices of memory with the STARTS where it may lie, such as 0,2,4. GPUs with
// profiles have MIG, which is off at first. A compute instance has all of its GPU instance.
//
// Modes and instances are the same for all processes, and outlive them: they lie in the file
// mig beside the table, which the library writes, of lines
//
//	made NUMBER
//	mode ADDRESS CURRENT PENDING
//	instance ADDRESS ID PROFILE START UUID
//
// with the number of MIG devices ever made, the profile's ID, and no UUID where there is no
// compute instance. Where proc/driver/nvidia/capabilities is in the folder that has
// etc/nvml-standin/gpus, the library makes below it the files by which NVIDIA's kernel driver
// tells of instances, such as gpu0/mig/gi1/ci0/access: Proc has what else lies there.
//
// Lines that somebody appends to the file events beside the table, or to the one that
// NVML_STANDIN_EVENTS names, are events for the sets that exist then:
//
//	xid ADDRESS NUMBER
//	lost ADDRESS
//	hang ADDRESS
//
// A lost GPU ends one wait of every set, and is NVML_ERROR_GPU_IS_LOST to all who ask for
// it from then on: in a process that waits for events, and in those that begin later. As long
// as a GPU hangs by a line of the file, whoever makes a GPU instance in it waits, and so does
// every other process that asks for MIG.
//
// How two GPUs reach each other is read of their functions in /sys, or in the folder that
// NVML_STANDIN_SYS names. There are no links between GPUs but PCI's.
package nvml

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/model"
)

const (
	// LibraryName is the name by which programs load NVML.
	LibraryName = "libnvidia-ml.so.1"
	// TablePath is where the library looks, below the folder that is the root of the driver
	// for it.
	TablePath = "etc/nvml-standin/gpus"
	// MIGPath is where it keeps what is made of GPUs.
	MIGPath = "etc/nvml-standin/mig"
	// EventsPath is where it looks for events.
	EventsPath = "etc/nvml-standin/events"
	// DriverVersion is that of the tutorial's machine.
	DriverVersion = "580.126.20"
	// CUDAVersion is, too.
	CUDAVersion = "13.0"
)

// product is what a driver of DriverVersion says of a product, and a machine file may not.
type product struct {
	memoryMiB uint64
	brand     string
	profiles  []profile
}

// profile is one of MIG's, with what nvidia-smi mig -lgip says of it. Of Hopper's the
// second with one slice has multiprocessors of a larger part of the GPU.
type profile struct {
	name                      string
	number, id                int
	slices, instances         int
	sms, copy, dec, jpeg, ofa int
	mib, size                 int
	starts                    string
}

// NVML's numbers of profiles (nvml.h, NVML_GPU_INSTANCE_PROFILE_*).
const (
	slice1, slice2, slice3, slice4, slice7 = 0, 1, 2, 3, 4
	slice1Media, slice1Memory              = 7, 9 // _REV1 and _REV2
)

// ampere and hopper make a product's profiles: names and MiB of an eighth, a quarter, half
// and all of its memory.
func ampere(names [7]string, mib [4]int) []profile {
	return []profile{
		{names[0], slice1, 19, 1, 7, 14, 1, 0, 0, 0, mib[0], 1, "0,1,2,3,4,5,6"},
		{names[1], slice1Media, 20, 1, 1, 14, 1, 1, 1, 1, mib[0], 1, "0,1,2,3,4,5,6"},
		{names[2], slice1Memory, 15, 1, 4, 14, 1, 1, 0, 0, mib[1], 2, "0,2,4,6"},
		{names[3], slice2, 14, 2, 3, 28, 2, 1, 0, 0, mib[1], 2, "0,2,4"},
		{names[4], slice3, 9, 3, 2, 42, 3, 2, 0, 0, mib[2], 4, "0,4"},
		{names[5], slice4, 5, 4, 1, 56, 4, 2, 0, 0, mib[2], 4, "0"},
		{names[6], slice7, 0, 7, 1, 98, 7, 5, 1, 1, mib[3], 8, "0"},
	}
}

func hopper(names [7]string, mib [4]int) []profile {
	return []profile{
		{names[0], slice1, 19, 1, 7, 16, 1, 1, 1, 0, mib[0], 1, "0,1,2,3,4,5,6"},
		{names[1], slice1Media, 20, 1, 1, 16, 1, 1, 1, 1, mib[0], 1, "0,1,2,3,4,5,6"},
		{names[2], slice1Memory, 15, 1, 4, 26, 1, 1, 1, 0, mib[1], 2, "0,2,4,6"},
		{names[3], slice2, 14, 2, 3, 32, 2, 2, 2, 0, mib[1], 2, "0,2,4"},
		{names[4], slice3, 9, 3, 2, 60, 3, 3, 3, 0, mib[2], 4, "0,4"},
		{names[5], slice4, 5, 4, 1, 64, 4, 4, 4, 0, mib[2], 4, "0"},
		{names[6], slice7, 0, 7, 1, 132, 8, 7, 7, 1, mib[3], 8, "0"},
	}
}

// products are by name. The memory is what nvidia-smi shows, less than what the product is
// sold by where firmware keeps some; the brand Tesla is Nvidia since R470.
var products = map[string]product{
	"Tesla T4": {15360, "Nvidia", nil},
	"NVIDIA A100-SXM4-40GB": {40960, "Nvidia", ampere(
		[...]string{"1g.5gb", "1g.5gb+me", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"}, [...]int{4864, 9856, 19968, 40192})},
	"NVIDIA A100-SXM4-80GB": {81920, "Nvidia", ampere(
		[...]string{"1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"}, [...]int{9728, 19968, 40192, 80896})},
	"NVIDIA H100 80GB HBM3": {81559, "Nvidia", hopper(
		[...]string{"1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"}, [...]int{9984, 20096, 40448, 81152})},
	"NVIDIA H200": {143771, "Nvidia", hopper(
		[...]string{"1g.18gb", "1g.18gb+me", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"}, [...]int{16384, 33280, 71424, 143360})},
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
	var names []string
	for i := range gpus {
		line, err := gpuLine(&gpus[i], devices[gpus[i].PCI], ownerOf(f, node))
		if err != nil {
			errs = append(errs, fmt.Errorf("table of the stand-in for NVML: machine %s: gpus %s: %w", f.Name, devices[gpus[i].PCI].Label(), err))
			continue
		}
		fmt.Fprintln(&text, line)
		names = append(names, gpus[i].ProductName)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		for _, p := range products[name].profiles {
			fmt.Fprintln(&text, "mig", p.name, p.number, p.id, p.slices, p.instances, p.sms, p.copy, p.dec, p.jpeg, p.ofa, p.mib, p.size, p.starts, name)
		}
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

// ownerOf names a node that is such a machine.
func ownerOf(f *machine.Facts, node string) string { return f.Name + " " + node }

// gpuUUID is the same each time for a GPU of an owner, and another's for no other.
func gpuUUID(owner string, at model.PCIAddress) string {
	return "GPU-" + uuid.NewSHA1(uuid.NameSpaceOID, []byte("plumbline NVML stand-in "+owner+" "+at.String())).String()
}
