// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nccltopo

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"
)

// Encode writes the file. NCCL reads it with a parser of its own (src/graph/xml.cc),
// which knows neither tabs nor a declaration of the XML version.
func (t *Topology) Encode() []byte {
	w := &writer{}
	w.open("system", attribute{"version", "1"})
	for i := range t.CPUs {
		w.cpu(&t.CPUs[i])
	}
	w.close("system")
	return w.out.Bytes()
}

type attribute struct{ name, value string }

type writer struct {
	out   bytes.Buffer
	depth int
}

func (w *writer) element(end, name string, attributes []attribute) {
	fmt.Fprintf(&w.out, "%s<%s", strings.Repeat("  ", w.depth), name)
	for _, a := range attributes {
		fmt.Fprintf(&w.out, " %s=\"", a.name)
		_ = xml.EscapeText(&w.out, []byte(a.value)) // a buffer takes all
		w.out.WriteByte('"')
	}
	w.out.WriteString(end)
}

func (w *writer) open(name string, attributes ...attribute) {
	w.element(">\n", name, attributes)
	w.depth++
}

func (w *writer) single(name string, attributes ...attribute) {
	w.element("/>\n", name, attributes)
}

func (w *writer) close(name string) {
	w.depth--
	fmt.Fprintf(&w.out, "%s</%s>\n", strings.Repeat("  ", w.depth), name)
}

func (w *writer) cpu(c *CPU) {
	node := -1
	if c.NUMANode != nil {
		node = *c.NUMANode
	}
	attributes := []attribute{{"numaid", strconv.Itoa(node)}}
	if c.CPUs != nil {
		attributes = append(attributes, attribute{"affinity", maskOf(*c.CPUs)})
	}
	attributes = appendText(attributes, "arch", c.Arch)
	attributes = appendText(attributes, "vendor", c.Vendor)
	attributes = appendNumber(attributes, "familyid", c.FamilyID)
	attributes = appendNumber(attributes, "modelid", c.ModelID)
	if len(c.Functions) == 0 && len(c.Nets) == 0 {
		w.single("cpu", attributes...)
		return
	}
	w.open("cpu", attributes...)
	for i := range c.Functions {
		w.function(&c.Functions[i])
	}
	w.nets(c.Nets)
	w.close("cpu")
}

func (w *writer) function(f *Function) {
	attributes := []attribute{{"busid", f.Address.String()}, {"class", fmt.Sprintf("0x%06x", f.Class)}}
	for _, id := range []struct {
		name  string
		value *uint16
	}{
		{"vendor", f.Vendor}, {"device", f.Device},
		{"subsystem_vendor", f.SubsystemVendor}, {"subsystem_device", f.SubsystemDevice},
	} {
		if id.value != nil {
			attributes = append(attributes, attribute{id.name, fmt.Sprintf("0x%04x", *id.value)})
		}
	}
	if f.SpeedMTs > 0 {
		attributes = append(attributes, attribute{"link_speed", speedText(f.SpeedMTs)})
	}
	if f.Width > 0 {
		attributes = append(attributes, attribute{"link_width", strconv.Itoa(f.Width)})
	}
	if f.GPU == nil && len(f.Nets) == 0 && len(f.Functions) == 0 {
		w.single("pci", attributes...)
		return
	}
	w.open("pci", attributes...)
	w.gpu(f.GPU)
	w.nets(f.Nets)
	for i := range f.Functions {
		w.function(&f.Functions[i])
	}
	w.close("pci")
}

// speedText is a speed as the kernel prints it (drivers/pci/pci.h, PCIE_SPEED2STR).
func speedText(mts int) string {
	if mts%100 == 0 {
		return fmt.Sprintf("%.1f GT/s PCIe", float64(mts)/1000)
	}
	return fmt.Sprintf("%g GT/s PCIe", float64(mts)/1000)
}

func (w *writer) gpu(g *GPU) {
	if g == nil {
		return
	}
	attributes := appendNumber(appendNumber(nil, "dev", g.Dev), "sm", g.SM)
	if !g.C2C {
		w.single("gpu", attributes...)
		return
	}
	w.open("gpu", attributes...)
	w.single("c2c")
	w.close("gpu")
}

func (w *writer) nets(nets []Net) {
	if len(nets) == 0 {
		return
	}
	w.open("nic")
	for _, n := range nets {
		w.single("net", attribute{"name", n.Name})
	}
	w.close("nic")
}

func appendText(to []attribute, name, value string) []attribute {
	if value == "" {
		return to
	}
	return append(to, attribute{name, value})
}

func appendNumber(to []attribute, name string, value *int) []attribute {
	if value == nil {
		return to
	}
	return append(to, attribute{name, strconv.Itoa(*value)})
}

// maskOf is a set of CPUs as the kernel prints masks (lib/vsprintf.c, bitmap_string):
// words of 32 bits, the highest first.
func maskOf(cpus cpuset.CPUSet) string {
	list := cpus.List() // sorted
	words := []uint32{0}
	for _, cpu := range list {
		for len(words) <= cpu/32 {
			words = append(words, 0)
		}
		words[cpu/32] |= 1 << (cpu % 32)
	}
	slices.Reverse(words)
	text := make([]string, len(words))
	for i, word := range words {
		text[i] = fmt.Sprintf("%08x", word)
	}
	return strings.Join(text, ",")
}
