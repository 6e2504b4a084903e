// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package podview

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"plumbline.dev/plumbline/internal/topoview"
)

// Text writes a line for each device.
func Text(w io.Writer, p *Pod) error {
	out := bufio.NewWriter(w)
	fmt.Fprintln(out, topoview.Printable(p.Name))
	if p.CPUs != "" {
		fmt.Fprintln(out, topoview.Joined(" · ", "CPUs "+p.CPUs+" of NUMA node "+p.CPUNodes, prefixed("memory of NUMA node ", p.Memory)))
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	head := "KIND\tINTERFACE\tRDMA\tPCI ADDRESS\tPCIE ROOT\tNUMA NODE\tSPEED\tFILES"
	if p.CPUs != "" {
		head += "\tTO CPUS"
	}
	fmt.Fprintln(table, head)
	for _, d := range p.Devices {
		node := "-"
		if d.NUMANode != nil {
			node = strconv.Itoa(*d.NUMANode)
		}
		files := strings.Join(d.Files, ",")
		if d.NoFiles {
			files = "none in this container"
		}
		kind := topoview.KindLabel(d.Kind)
		if d.Virtual {
			kind = "virtual"
		}
		row := []string{kind, dash(d.Interface), dash(d.RDMA), dash(d.Address), dash(d.Root), node, dash(topoview.NetworkSpeed(d.NetworkMbps)), dash(files)}
		if p.CPUs != "" {
			row = append(row, dash(d.ToCPUs))
		}
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	table.Flush() //nolint:errcheck // out keeps the error until its own Flush
	writePorts(out, p)
	if p.CPUs != "" {
		fmt.Fprintln(out, "\nTO CPUS: NODE is the NUMA node of all CPUs, SYS is across the link between NUMA nodes for some")
	}
	for _, n := range p.Notes {
		fmt.Fprintln(out, "· "+topoview.Printable(n))
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write pod: %w", err)
	}
	return nil
}

// writePorts writes a line for each port of an RDMA device, as ibdev2netdev does.
func writePorts(out io.Writer, p *Pod) {
	var lines []string
	for _, d := range p.Devices {
		for _, port := range d.Ports {
			lines = append(lines, topoview.Printable(fmt.Sprintf("%s port %d ==> %s", d.RDMA, port.Number, portText(port))))
		}
	}
	if len(lines) > 0 {
		fmt.Fprintln(out, "\n"+strings.Join(lines, "\n"))
	}
}

// portText is the interface with the state of its link. A port that is not active
// says so; ibdev2netdev does not ask.
func portText(p RDMAPort) string {
	text := "no interface"
	if p.Interface != "" {
		text = p.Interface
		switch p.LinkState {
		case "":
		case "up":
			text += " (Up)"
		default:
			text += " (Down)"
		}
	}
	if p.State != "" && (p.State != "ACTIVE" || p.Interface == "") {
		text += ", port " + p.State
	}
	return text
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return topoview.Printable(s)
}
