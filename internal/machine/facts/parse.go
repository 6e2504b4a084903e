// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/model"
)

// maxFactsBytes is far above any real facts file (the largest is 8 KB).
const maxFactsBytes = 1 << 20

// Parse reads a facts file. The error joins all *Problems; filename is only for them.
func Parse(data []byte, filename string) (*Facts, error) {
	p := &parser{problems: problems{file: filename}}
	root := p.document(data)
	if err := p.err(); err != nil {
		return nil, err
	}
	facts := p.facts(root)
	if err := p.err(); err != nil {
		return nil, err
	}
	p.check(facts)
	if err := p.err(); err != nil {
		return nil, err
	}
	return facts, nil
}

// parser walks YAML nodes, since a decoded struct has no lines.
type parser struct {
	problems
	// lines holds the line of each part, for the checks across parts.
	lines map[string]int
	// cpus counts those listed so far, to bound the total.
	cpus int
	// published says of each root whether the upstream helper publishes it.
	published map[string]bool
}

var yamlLine = regexp.MustCompile(`line (\d+)`)

func (p *parser) document(data []byte) *yaml.Node {
	if len(data) > maxFactsBytes {
		p.add(1, "", "is %d bytes long, more than the %d a facts file may have", len(data), maxFactsBytes)
		return nil
	}
	var doc, second yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	switch err := decoder.Decode(&doc); {
	case errors.Is(err, io.EOF):
		p.add(1, "", "is empty")
		return nil
	case err != nil:
		line := 1
		if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
			line, _ = strconv.Atoi(m[1])
		}
		p.add(line, "", "%v", err)
		return nil
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		p.add(max(second.Line, 1), "", "holds more than one document; one file describes one machine")
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		p.add(1, "", "is no YAML document")
		return nil
	}
	return doc.Content[0]
}

func (p *parser) facts(root *yaml.Node) *Facts {
	f := &Facts{}
	p.lines = map[string]int{"": root.Line}
	var gpus, nics, numa, roots, cpu *yaml.Node
	section := func(into **yaml.Node) reader { return func(_ string, n *yaml.Node) { *into = n } }
	p.mapping("", root, map[string]reader{
		"name":          p.text(&f.Name),
		"provider":      p.text(&f.Provider),
		"instance_type": p.text(&f.InstanceType),
		"arch":          p.text(&f.Arch),
		"virtual":       p.boolean(&f.Virtual),
		"sources":       ignore,
		"notes":         ignore,
		"cpu":           section(&cpu),
		"numa":          section(&numa),
		"pcie_roots":    section(&roots),
		"gpus":          section(&gpus),
		"nics":          section(&nics),
		"kubernetes":    p.kubernetes(&f.Kubernetes),
	})
	f.CPU = p.cpu(cpu, f)
	p.sequence("numa", numa, func(field string, n *yaml.Node) { p.numaNode(f, field, n) })
	p.sequence("pcie_roots", roots, func(field string, n *yaml.Node) { p.root(f, field, n) })
	f.GPUs = p.devices("gpus", gpus, 0x030200)
	f.NICs = p.devices("nics", nics, 0x020000)
	return f
}

func (p *parser) cpu(n *yaml.Node, f *Facts) CPUFacts {
	var c CPUFacts
	if isNull(n) {
		return c
	}
	p.lines["cpu"] = n.Line
	var memoryOnly []int
	p.mapping("cpu", n, map[string]reader{
		"sockets":           p.integer(&c.Sockets, 1, maxNUMANode),
		"numa_nodes":        p.integer(&c.NUMANodes, 1, maxNUMANode+1),
		"cpus":              p.integer(&c.CPUs, 1, maxCPU+1),
		"smt":               p.integer(&c.SMT, 1, 8),
		"snc":               p.boolean(&c.SNC),
		"memory_only_nodes": p.nodeList(&memoryOnly),
	})
	for _, id := range memoryOnly {
		p.addMemoryOnly(f, id)
	}
	return c
}

// addMemoryOnly adds a node of memory_only_nodes, which numa[] may repeat.
func (p *parser) addMemoryOnly(f *Facts, id int) {
	none := cpuset.New()
	f.NUMA = append(f.NUMA, NodeFacts{ID: id, CPUs: &none})
	p.lines[nodeKey(id)] = p.lines["cpu"]
}

func nodeKey(id int) string { return fmt.Sprintf("numa %d", id) }

func (p *parser) numaNode(f *Facts, field string, n *yaml.Node) {
	var node NodeFacts
	var id *int
	p.mapping(field, n, map[string]reader{
		"id":     p.integer(&id, 0, maxNUMANode),
		"cpus":   p.cpulist(&node.CPUs),
		"socket": p.integer(&node.Socket, 0, maxNUMANode),
	})
	if id == nil {
		p.add(n.Line, field, "has no id")
		return
	}
	node.ID = *id
	if node.CPUs != nil {
		if p.cpus += node.CPUs.Size(); p.cpus > maxCPU+1 {
			p.add(n.Line, field, "the nodes up to here list %d CPUs, more than the %d a machine can have", p.cpus, maxCPU+1)
			return
		}
	}
	at := slices.IndexFunc(f.NUMA, func(known NodeFacts) bool { return known.ID == node.ID })
	switch {
	case at < 0:
		f.NUMA = append(f.NUMA, node)
	case p.lines[nodeKey(node.ID)] != p.lines["cpu"] || !f.NUMA[at].MemoryOnly():
		p.add(n.Line, field, "NUMA node %d is listed twice, first on line %d", node.ID, p.lines[nodeKey(node.ID)])
		return
	case node.CPUs != nil && !node.CPUs.IsEmpty():
		p.add(n.Line, field, "NUMA node %d has CPUs %s, but cpu.memory_only_nodes says it has none", node.ID, node.CPUs)
	default:
		f.NUMA[at].Socket = node.Socket
	}
	p.lines[nodeKey(node.ID)] = n.Line
}

func (p *parser) root(f *Facts, field string, n *yaml.Node) {
	var root RootFacts
	p.mapping(field, n, map[string]reader{
		"root":      p.rootName(&root.Name),
		"numa":      p.numa(&root.NUMA),
		"switch_up": p.address(&root.SwitchUp),
		"holds":     p.text(&root.Holds),
	})
	if root.Name == "" {
		p.add(n.Line, field, "has no root, such as pci0000:8c")
		return
	}
	p.lines["root "+root.Name] = n.Line
	if slices.ContainsFunc(f.Roots, func(r RootFacts) bool { return r.Name == root.Name }) {
		p.add(n.Line, field, "root %s is listed twice", root.Name)
		return
	}
	f.Roots = append(f.Roots, root)
}

// devices reads a section gpus or nics: common values first, wherever they are, then
// each device over them. An explicit null removes a common value.
func (p *parser) devices(section string, n *yaml.Node, class uint32) []Device {
	if isNull(n) {
		return nil
	}
	var common, list *yaml.Node
	p.mapping(section, n, map[string]reader{
		"common":  func(_ string, n *yaml.Node) { common = n },
		"devices": func(_ string, n *yaml.Node) { list = n },
	})
	base := Device{Class: class, lines: map[string]int{}}
	if !isNull(common) {
		p.device(section+".common", common, &base)
	}
	var out []Device
	p.sequence(section+".devices", list, func(field string, n *yaml.Node) {
		d := base
		d.lines = map[string]int{"": n.Line}
		for key, line := range base.lines {
			if key != "" {
				d.lines[key] = line
			}
		}
		addressed := p.device(field, n, &d)
		if d.Class == 0 {
			d.Class = class
		}
		switch {
		case d.Name == "" && d.RDMA == "" && d.Ifname == "":
			p.add(n.Line, field, "has no name: want name, rdma or ifname")
		case !addressed:
			p.add(n.Line, field, "%s has no bdf, such as 0000:8f:00.0", d.Label())
		}
		out = append(out, d)
	})
	return out
}

// device reads the keys of one device over what d holds, and says whether it
// has an address.
func (p *parser) device(field string, n *yaml.Node, d *Device) bool {
	var address *model.PCIAddress
	ignored := ignore // for readers; no rule depends on it
	p.mapping(field, n, map[string]reader{
		"name":            p.text(&d.Name),
		"rdma":            p.deviceName(&d.RDMA),
		"ifname":          p.interfaceName(&d.Ifname),
		"bdf":             d.noting("bdf", p.address(&address)),
		"root":            d.noting("root", p.rootName(&d.Root)),
		"sysfs_root":      d.noting("sysfs_root", p.rootName(&d.SysfsRoot)),
		"numa":            d.noting("numa", p.numa(&d.NUMA)),
		"class":           p.class(&d.Class),
		"pci_id":          p.pciID(&d.ID),
		"model":           p.text(&d.Model),
		"link":            p.link(&d.Link),
		"gbps":            p.gbps(&d.SpeedMbps),
		"mtu":             p.integer(&d.MTU, 68, 65535),
		"memory_mib":      p.memory(&d.MemoryMiB),
		"gpu_memory_numa": d.noting("gpu_memory_numa", p.nodeList(&d.MemoryNodes)),
		"ib_only":         p.flag(&d.IBOnly),
		"role":            p.text(&d.Role),
		"network":         p.text(&d.Network),
		"nic":             p.text(&d.NIC),
		"pix_gpu":         ignored,
	})
	if address != nil {
		d.Address = *address
	}
	return address != nil
}

// noting records the line of a key, for the checks across devices.
func (d *Device) noting(key string, r reader) reader {
	return func(field string, n *yaml.Node) {
		d.lines[key] = n.Line
		r(field, n)
	}
}

// line is that of a key, or of the device where the key is absent.
func (d *Device) line(key string) int {
	if line, ok := d.lines[key]; ok {
		return line
	}
	return d.lines[""]
}

// Problem is one thing wrong with a machine file.
type Problem struct {
	File string
	// Line counts from 1.
	Line int
	// Field is where, such as "gpus.devices[2].bdf"; empty for the whole file.
	Field string
	// Reason is what is wrong and what would be right.
	Reason string
}

// Error is "file:line: field: reason".
func (p *Problem) Error() string {
	if p.Field == "" {
		return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Reason)
	}
	return fmt.Sprintf("%s:%d: %s: %s", p.File, p.Line, p.Field, p.Reason)
}

// problems collects all problems of a file.
type problems struct {
	file string
	list []*Problem
}

func (p *problems) add(line int, field, format string, args ...any) {
	p.list = append(p.list, &Problem{File: p.file, Line: line, Field: field, Reason: fmt.Sprintf(format, args...)})
}

// err joins the problems in the file's order; nil when there is none.
func (p *problems) err() error {
	slices.SortStableFunc(p.list, func(a, b *Problem) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Field, b.Field)) })
	errs := make([]error, len(p.list))
	for i, one := range p.list {
		errs[i] = one
	}
	return errors.Join(errs...)
}
