// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nccltopo

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"plumbline.dev/plumbline/internal/model"
)

// Limits of a file, each several times what a machine needs: whoever may write the file
// does not decide how much memory reading it takes.
const (
	// MaxBytes is how long a file may be.
	MaxBytes = 1 << 20
	// maxDepth is how many elements may be open at once, maxElements how many there
	// may be, and maxAttributes how many attributes one may have.
	maxDepth      = 32
	maxElements   = 8192
	maxAttributes = 64
	// maxCPUs is how many NUMA nodes there may be, each with a set of CPUs, and
	// maxFunctions how many PCI functions: each GPU may make a pair with each NIC.
	maxCPUs      = 128
	maxFunctions = 512
)

// Decode reads a file. Its errors name the line and the element. Elements and attributes
// that it does not know are passed over: each release of NCCL adds some.
func Decode(data []byte) (*Topology, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("a topology file has at most %d bytes, this has %d", MaxBytes, len(data))
	}
	d := &decoder{xml: xml.NewDecoder(bytes.NewReader(data)), nodes: map[int]bool{}, functions: map[model.PCIAddress]bool{}}
	for {
		token, err := d.token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if start.Name.Local != "system" || d.topology != nil {
			return nil, d.fail(start, errors.New("want one element <system>, and nothing beside it"))
		}
		d.topology = &Topology{}
		if err := d.system(start); err != nil {
			return nil, err
		}
	}
	if d.topology == nil {
		return nil, errors.New("want an element <system>, the file has none")
	}
	return d.topology, nil
}

type decoder struct {
	xml       *xml.Decoder
	topology  *Topology
	depth     int
	elements  int
	nodes     map[int]bool
	functions map[model.PCIAddress]bool
}

func (d *decoder) line() int {
	line, _ := d.xml.InputPos()
	return line
}

func (d *decoder) fail(start xml.StartElement, err error) error {
	return fmt.Errorf("line %d, <%s>: %w", d.line(), start.Name.Local, err)
}

// token is the next token within the limits. Only space may be between elements.
func (d *decoder) token() (xml.Token, error) {
	token, err := d.xml.Token()
	var syntax *xml.SyntaxError
	switch {
	case errors.Is(err, io.EOF):
		return nil, io.EOF
	case errors.As(err, &syntax):
		return nil, fmt.Errorf("line %d: %s", syntax.Line, syntax.Msg)
	case err != nil:
		return nil, fmt.Errorf("line %d: %w", d.line(), err)
	}
	switch t := token.(type) {
	case xml.StartElement:
		d.depth++
		d.elements++
		switch {
		case d.depth > maxDepth:
			return nil, d.fail(t, fmt.Errorf("more than %d elements within each other", maxDepth))
		case d.elements > maxElements:
			return nil, d.fail(t, fmt.Errorf("more than %d elements", maxElements))
		case len(t.Attr) > maxAttributes:
			return nil, d.fail(t, fmt.Errorf("more than %d attributes", maxAttributes))
		}
		for i, a := range t.Attr {
			if slices.ContainsFunc(t.Attr[:i], func(b xml.Attr) bool { return a.Name.Local == b.Name.Local }) {
				return nil, d.fail(t, fmt.Errorf("%s is given twice", quote(a.Name.Local)))
			}
		}
	case xml.EndElement:
		d.depth--
	case xml.CharData:
		if len(bytes.TrimSpace(t)) > 0 {
			return nil, fmt.Errorf("line %d: text between elements", d.line())
		}
	case xml.Directive:
		return nil, fmt.Errorf("line %d: <!%.16q: a topology file has no declarations", d.line(), t)
	}
	return token, nil
}

// children reads what is within an element, until its end. Elements that handlers lack
// are passed over, unless they are among the format's: those are misplaced.
func (d *decoder) children(parent xml.StartElement, handlers map[string]func(xml.StartElement) error) error {
	for {
		token, err := d.token()
		if errors.Is(err, io.EOF) {
			return d.fail(parent, errors.New("the file ends before the element does"))
		}
		if err != nil {
			return err
		}
		switch t := token.(type) {
		case xml.EndElement:
			return nil
		case xml.StartElement:
			handle := handlers[t.Name.Local]
			switch {
			case handle != nil:
				err = handle(t)
			case parents[t.Name.Local] != "" && handlers != nil:
				err = d.fail(t, fmt.Errorf("want it within %s, it is within <%s>", parents[t.Name.Local], parent.Name.Local))
			default:
				err = d.children(t, nil)
			}
			if err != nil {
				return err
			}
		}
	}
}

// parents are the elements of the format, and where they may be.
var parents = map[string]string{
	"cpu": "<system>", "pci": "<cpu> or <pci>", "gpu": "<pci>", "c2c": "<gpu>", "nic": "<cpu> or <pci>", "net": "<nic>",
}

func (d *decoder) system(start xml.StartElement) error {
	if version, ok := d.attributes(start)["version"]; !ok || version != "1" {
		return d.fail(start, fmt.Errorf("version is %q, want 1", version))
	}
	return d.children(start, map[string]func(xml.StartElement) error{"cpu": d.cpu})
}

func (d *decoder) attributes(start xml.StartElement) attributes {
	all := make(attributes, len(start.Attr))
	for _, a := range start.Attr {
		all[a.Name.Local] = a.Value
	}
	return all
}

func (d *decoder) cpu(start xml.StartElement) error {
	a := d.attributes(start)
	c := CPU{Arch: a["arch"], Vendor: a["vendor"]}
	node, err := a.integer("numaid", -1, maxNode)
	if err == nil && node == nil {
		err = errors.New("numaid is missing")
	}
	if err == nil && d.nodes[*node] {
		err = fmt.Errorf("NUMA node %d is listed twice", *node)
	}
	if err == nil && len(d.nodes) == maxCPUs {
		err = fmt.Errorf("more than %d NUMA nodes", maxCPUs)
	}
	if err != nil {
		return d.fail(start, err)
	}
	d.nodes[*node] = true
	if *node >= 0 {
		c.NUMANode = node
	}
	var errs [3]error
	c.CPUs, errs[0] = a.mask("affinity")
	c.FamilyID, errs[1] = a.integer("familyid", 0, 1<<16)
	c.ModelID, errs[2] = a.integer("modelid", 0, 1<<16)
	if err := errors.Join(errs[:]...); err != nil {
		return d.fail(start, err)
	}
	err = d.children(start, map[string]func(xml.StartElement) error{
		"pci": func(t xml.StartElement) error { return d.function(t, &c.Functions) },
		"nic": func(t xml.StartElement) error { return d.nic(t, &c.Nets) },
	})
	d.topology.CPUs = append(d.topology.CPUs, c)
	return err
}

func (d *decoder) function(start xml.StartElement, to *[]Function) error {
	a := d.attributes(start)
	var f Function
	var err error
	if f.Address, err = a.address("busid"); err != nil {
		return d.fail(start, err)
	}
	if d.functions[f.Address] {
		return d.fail(start, fmt.Errorf("busid %s is listed twice", f.Address))
	}
	if len(d.functions) == maxFunctions {
		return d.fail(start, fmt.Errorf("more than %d PCI functions", maxFunctions))
	}
	d.functions[f.Address] = true
	var errs [7]error
	f.Class, errs[0] = a.class("class")
	f.Vendor, errs[1] = a.id("vendor")
	f.Device, errs[2] = a.id("device")
	f.SubsystemVendor, errs[3] = a.id("subsystem_vendor")
	f.SubsystemDevice, errs[4] = a.id("subsystem_device")
	f.SpeedMTs, errs[5] = a.speed("link_speed")
	f.Width, errs[6] = a.width("link_width")
	if err := errors.Join(errs[:]...); err != nil {
		return d.fail(start, err)
	}
	err = d.children(start, map[string]func(xml.StartElement) error{
		"pci": func(t xml.StartElement) error { return d.function(t, &f.Functions) },
		"gpu": func(t xml.StartElement) error { return d.gpu(t, &f) },
		"nic": func(t xml.StartElement) error { return d.nic(t, &f.Nets) },
	})
	*to = append(*to, f)
	return err
}

// gpu reads a <gpu>. A function has several where it is cut into parts, of which the
// first tells what is read here.
func (d *decoder) gpu(start xml.StartElement, of *Function) error {
	a := d.attributes(start)
	var g GPU
	var errs [2]error
	g.Dev, errs[0] = a.integer("dev", -1, 1<<16)
	g.SM, errs[1] = a.integer("sm", 0, 1<<16)
	if err := errors.Join(errs[:]...); err != nil {
		return d.fail(start, err)
	}
	err := d.children(start, map[string]func(xml.StartElement) error{"c2c": func(t xml.StartElement) error {
		g.C2C = true
		return d.children(t, nil)
	}})
	if of.GPU == nil {
		of.GPU = &g
	}
	return err
}

func (d *decoder) nic(start xml.StartElement, to *[]Net) error {
	return d.children(start, map[string]func(xml.StartElement) error{"net": func(t xml.StartElement) error {
		name := d.attributes(t)["name"]
		if strings.TrimSpace(name) == "" {
			return d.fail(t, errors.New("name is missing"))
		}
		*to = append(*to, Net{Name: name})
		return d.children(t, nil)
	}})
}
