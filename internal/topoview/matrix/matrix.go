// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package matrix draws how near each GPU and NIC of a machine is to each other
// one, as nvidia-smi topo -m does. How near they are is model/affinity's to say;
// NVLink is not known here.
package matrix

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/affinity"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/topoview"
)

// Kind identifies the JSON form, of topoview.APIVersion.
const Kind = "TopologyMatrix"

// Matrix is the classes of all pairs.
type Matrix struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Name       string   `json:"name"`
	Devices    []Device `json:"devices"`
	// Classes has a row and a column for each device, in their order.
	Classes [][]string `json:"classes"`
	// Legend is the classes that occur, in words.
	Legend []Meaning `json:"legend"`
}

// Device is a row and a column.
type Device struct {
	// Label is GPU0, NIC0 and so on, numbered as in the machine.
	Label string `json:"label"`
	// Name is the published one.
	Name      string `json:"name"`
	Address   string `json:"address,omitempty"`
	Interface string `json:"interface,omitempty"`
	RDMA      string `json:"rdma,omitempty"`
	// NUMANode and CPUs are where programs that use the device belong.
	NUMANode *int   `json:"numaNode,omitempty"`
	CPUs     string `json:"cpus,omitempty"`

	place affinity.Place
}

// Meaning is a class in words.
type Meaning struct {
	Class   string `json:"class"`
	Meaning string `json:"meaning"`
}

// Build classifies all pairs of the machine's GPUs and NICs.
func Build(m *model.Machine, name string) *Matrix {
	x := &Matrix{APIVersion: topoview.APIVersion, Kind: Kind, Name: name, Devices: devices(m), Classes: [][]string{}, Legend: []Meaning{}}
	seen := map[affinity.Class]bool{}
	for i := range x.Devices {
		row := make([]string, len(x.Devices))
		for j := range x.Devices {
			class := affinity.Self
			// Two interfaces of one function are two devices in one place.
			if i != j {
				class = max(affinity.PIX, affinity.Between(m, x.Devices[i].place, x.Devices[j].place))
			}
			seen[class] = true
			row[j] = class.String()
		}
		x.Classes = append(x.Classes, row)
	}
	for _, class := range affinity.Classes() {
		if seen[class] {
			x.Legend = append(x.Legend, Meaning{class.String(), class.Meaning()})
		}
	}
	return x
}

func devices(m *model.Machine) []Device {
	var list []Device
	for i, g := range m.GPUs {
		d := Device{Label: "GPU" + strconv.Itoa(i), Name: slicecodec.IDOfGPU(g).Name, Address: g.PCI.String(), NUMANode: g.NUMANode, place: affinity.OfGPU(g)}
		list = append(list, d.near(m))
	}
	for i, n := range m.NICs {
		d := Device{Label: "NIC" + strconv.Itoa(i), Name: slicecodec.IDOfNIC(n).Name, NUMANode: n.NUMANode, place: affinity.OfNIC(n)}
		if n.PCI != nil {
			d.Address = n.PCI.String()
		}
		if n.Interface != nil {
			d.Interface = n.Interface.Name
		}
		if n.RDMA != nil {
			d.RDMA = n.RDMA.Name
		}
		list = append(list, d.near(m))
	}
	return list
}

// near adds the CPUs of the device's node.
func (d Device) near(m *model.Machine) Device {
	if d.NUMANode != nil {
		if n := m.NUMANode(*d.NUMANode); n != nil {
			d.CPUs = n.CPUs.String()
		}
	}
	return d
}

// Text writes the matrix as a table, with what its words mean and which NICs
// are which.
func Text(w io.Writer, x *Matrix) error {
	out := bufio.NewWriter(w)
	if len(x.Devices) == 0 {
		fmt.Fprintln(out, topoview.Printable(x.Name)+" has no GPUs and no NICs")
		return out.Flush()
	}
	rows := [][]string{{""}}
	for _, d := range x.Devices {
		rows[0] = append(rows[0], d.Label)
	}
	rows[0] = append(rows[0], "CPU Affinity", "NUMA Affinity")
	for i, d := range x.Devices {
		row := slices.Concat([]string{d.Label}, x.Classes[i])
		node := "N/A"
		if d.NUMANode != nil {
			node = strconv.Itoa(*d.NUMANode)
		}
		cpus := d.CPUs
		if cpus == "" {
			cpus = "N/A"
		}
		rows = append(rows, append(row, cpus, node))
	}
	table(out, rows)
	fmt.Fprintln(out, "\nLegend:")
	for _, m := range x.Legend {
		fmt.Fprintf(out, "  %-4s = %s\n", m.Class, m.Meaning)
	}
	fmt.Fprintln(out, "\nDevices:")
	rows = nil
	for _, d := range x.Devices {
		rows = append(rows, []string{
			"  " + d.Label + ":", topoview.Printable(d.Name), d.Address, topoview.Printable(d.Interface), topoview.Printable(d.RDMA),
		})
	}
	table(out, rows)
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write matrix: %w", err)
	}
	return nil
}

// table aligns the columns.
func table(out io.Writer, rows [][]string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			if widths[i] > 0 {
				b.WriteString(cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
			}
		}
		fmt.Fprintln(out, strings.TrimRight(b.String(), " "))
	}
}
