// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"plumbline.dev/plumbline/internal/model"
)

// GPUs is where GPU facts come from. A nil GPUs offers none: another driver
// owns them.
type GPUs interface {
	// GPUs lists the machine's GPUs. functions are those sysfs shows; nodes are
	// the device files of display functions, such as /dev/dri/card0.
	GPUs(ctx context.Context, functions []model.PCIFunction, nodes map[model.PCIAddress][]string) ([]model.GPU, []Problem, error)
}

// Listed are known GPUs, such as those of a machine file, without stand-ins.
type Listed []model.GPU

// GPUs implements GPUs.
func (l Listed) GPUs(context.Context, []model.PCIFunction, map[model.PCIAddress][]string) ([]model.GPU, []Problem, error) {
	return l, nil, nil
}

// Simulated offers the GPUs of a machine file where the machine has a function at the
// same address, as its stand-in; each is marked so. A stand-in has the index of its GPU
// in the machine file, also where the machine lacks some of the GPUs before it.
type Simulated struct {
	// Facts are the machine file's GPUs.
	Facts []model.GPU
	// StandIn is what stands in for the GPU, such as "bochs-display".
	StandIn string
	// Node goes into the GPUs' UUIDs, so that two nodes with the same machine
	// file have GPUs of their own.
	Node string
}

// GPUs implements GPUs.
func (g Simulated) GPUs(_ context.Context, functions []model.PCIFunction, nodes map[model.PCIAddress][]string) ([]model.GPU, []Problem, error) {
	at := make(map[model.PCIAddress]*model.PCIFunction, len(functions))
	for i := range functions {
		at[functions[i].Address] = &functions[i]
	}
	facts := slices.SortedFunc(slices.Values(g.Facts), func(a, b model.GPU) int { return a.PCI.Compare(b.PCI) })
	var gpus []model.GPU
	var problems []Problem
	for index, gpu := range facts {
		f := at[gpu.PCI]
		if f == nil {
			problems = append(problems, Problem{
				Path: "bus/pci/devices/" + gpu.PCI.String(),
				Err:  fmt.Errorf("simulated GPU %s left out: the machine has no function at its address", gpu.ProductName),
			})
			continue
		}
		text := g.StandIn + " as " + gpu.ProductName
		gpu.Simulated = &text
		gpu.Index = index
		gpu.NUMANode = f.NUMANode
		gpu.DeviceNodes = nodes[gpu.PCI]
		completeContract(&gpu, g.Node)
		gpus = append(gpus, gpu)
	}
	return gpus, problems, nil
}

// Versions of a simulated GPU: those of the tutorial's machine, so that the tutorial's
// selectors match.
const (
	simulatedDriverVersion = "580.126.20"
	simulatedCUDAVersion   = "13.0.0"
)

// completeContract fills in the attributes that gpu.nvidia.com publishes of every GPU
// and that a machine file lacks: a selector that reads an absent attribute fails the
// whole allocation.
func completeContract(g *model.GPU, node string) {
	if g.UUID == nil {
		id := "GPU-" + uuid.NewSHA1(uuid.NameSpaceOID, []byte("plumbline simulated GPU "+node+" "+g.PCI.String())).String()
		g.UUID = &id
	}
	if g.DriverVersion == nil {
		version := simulatedDriverVersion
		g.DriverVersion = &version
	}
	if g.CUDAVersion == nil {
		version := simulatedCUDAVersion
		g.CUDAVersion = &version
	}
}
