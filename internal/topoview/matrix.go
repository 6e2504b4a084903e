// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package topoview

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
	"plumbline.dev/plumbline/internal/printable"
)

// MatrixKind identifies the JSON form, of APIVersion.
const MatrixKind = "TopologyMatrix"

// Matrix is how near each GPU and NIC of a machine is to each other one, as
// nvidia-smi topo -m shows it. The classes are model/affinity's; NVLink is not
// known here.
type Matrix struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Name       string         `json:"name"`
	Devices    []MatrixDevice `json:"devices"`
	// Classes has a row and a column for each device, in their order.
	Classes [][]string `json:"classes"`
	// Legend is the classes that occur, in words.
	Legend []ClassMeaning `json:"legend"`
}

// MatrixDevice is a row and a column.
type MatrixDevice struct {
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

// ClassMeaning is a class in words.
type ClassMeaning struct {
	Class   string `json:"class"`
	Meaning string `json:"meaning"`
}

// BuildMatrix classifies all pairs of the machine's GPUs and NICs.
func BuildMatrix(m *model.Machine, name string) *Matrix {
	x := &Matrix{APIVersion: APIVersion, Kind: MatrixKind, Name: name, Devices: matrixDevices(m), Classes: [][]string{}, Legend: []ClassMeaning{}}
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
			x.Legend = append(x.Legend, ClassMeaning{class.String(), class.Meaning()})
		}
	}
	return x
}

func matrixDevices(m *model.Machine) []MatrixDevice {
	var list []MatrixDevice
	for i, g := range m.GPUs {
		d := MatrixDevice{Label: "GPU" + strconv.Itoa(i), Name: slicecodec.IDOfGPU(g).Name, Address: g.PCI.String(), NUMANode: g.NUMANode, place: affinity.OfGPU(g)}
		list = append(list, d.near(m))
	}
	for i, n := range m.NICs {
		d := MatrixDevice{Label: "NIC" + strconv.Itoa(i), Name: slicecodec.IDOfNIC(n).Name, NUMANode: n.NUMANode, place: affinity.OfNIC(n)}
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
func (d MatrixDevice) near(m *model.Machine) MatrixDevice {
	if d.NUMANode != nil {
		if n := m.NUMANode(*d.NUMANode); n != nil {
			d.CPUs = n.CPUs.String()
		}
	}
	return d
}

// MatrixText writes the matrix as a table, with what its words mean and which NICs
// are which.
func MatrixText(w io.Writer, x *Matrix) error {
	out := bufio.NewWriter(w)
	if len(x.Devices) == 0 {
		fmt.Fprintln(out, printable.Text(x.Name)+" has no GPUs and no NICs")
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
	alignColumns(out, rows)
	fmt.Fprintln(out, "\nLegend:")
	for _, m := range x.Legend {
		fmt.Fprintf(out, "  %-4s = %s\n", m.Class, m.Meaning)
	}
	fmt.Fprintln(out, "\nDevices:")
	rows = nil
	for _, d := range x.Devices {
		rows = append(rows, []string{
			"  " + d.Label + ":", printable.Text(d.Name), d.Address, printable.Text(d.Interface), printable.Text(d.RDMA),
		})
	}
	alignColumns(out, rows)
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write matrix: %w", err)
	}
	return nil
}

// alignColumns aligns the columns.
func alignColumns(out io.Writer, rows [][]string) {
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
