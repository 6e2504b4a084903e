// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// maxFactsBytes is far above any real facts file (the largest is 8 KB).
const maxFactsBytes = 1 << 20

// Parse reads a facts file. The error joins one *Problem for each thing
// wrong; filename only appears there.
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

// parser walks YAML nodes, because a decoded struct no longer knows its lines.
type parser struct {
	problems
	// lines holds the line of each part, for the checks across parts.
	lines map[string]int
	// cpus counts those listed so far, to refuse lists without end early.
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
