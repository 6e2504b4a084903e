// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// reader takes one value of a mapping; field is its path, for errors.
type reader func(field string, n *yaml.Node)

func ignore(string, *yaml.Node) {}

func isNull(n *yaml.Node) bool { return n == nil || n.Tag == "!!null" }

// provenance says whether a key is a source, for readers (machines/README.md).
func provenance(key string) bool {
	return key == "src" || strings.HasSuffix(key, "_src") || strings.HasPrefix(key, "topo_m_")
}

// mapping calls the reader of each key, and refuses keys without one.
func (p *parser) mapping(field string, n *yaml.Node, readers map[string]reader) {
	if n.Kind != yaml.MappingNode {
		p.add(n.Line, field, "want a mapping of keys to values")
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		path := key.Value
		if field != "" {
			path = field + "." + key.Value
		}
		if first, twice := seen[key.Value]; twice {
			p.add(key.Line, path, "is given twice, first on line %d", first)
			continue
		}
		seen[key.Value] = key.Line
		read, known := readers[key.Value]
		switch {
		case known && value.Kind == yaml.AliasNode:
			p.add(value.Line, path, "is an alias; write the value itself")
		case known:
			read(path, value)
		case !provenance(key.Value):
			p.add(key.Line, path, "is no field of a facts file")
		}
	}
}

// sequence calls each for the entries of a list; a null list has none.
func (p *parser) sequence(field string, n *yaml.Node, each reader) {
	if isNull(n) {
		return
	}
	if n.Kind != yaml.SequenceNode {
		p.add(n.Line, field, "want a list")
		return
	}
	for i, entry := range n.Content {
		path := fmt.Sprintf("%s[%d]", field, i)
		if entry.Kind == yaml.AliasNode {
			p.add(entry.Line, path, "is an alias; write the value itself")
			continue
		}
		each(path, entry)
	}
}

// scalar calls set with the text of a value, and unset for null.
func (p *parser) scalar(unset func(), set func(text string) error) reader {
	return func(field string, n *yaml.Node) {
		if isNull(n) {
			unset()
			return
		}
		if n.Kind != yaml.ScalarNode {
			p.add(n.Line, field, "want one value, not a list or mapping")
			return
		}
		if err := set(n.Value); err != nil {
			p.add(n.Line, field, "%q: %v", n.Value, err)
		}
	}
}

func (p *parser) text(into *string) reader {
	return p.scalar(func() { *into = "" }, func(s string) error {
		if strings.TrimSpace(s) == "" || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' }) {
			return fmt.Errorf("want one line of text, or null when unknown")
		}
		*into = s
		return nil
	})
}

func (p *parser) boolean(into **bool) reader {
	return p.scalar(func() { *into = nil }, func(s string) error {
		if s != "true" && s != "false" {
			return fmt.Errorf("want true, false or null")
		}
		v := s == "true"
		*into = &v
		return nil
	})
}

func (p *parser) flag(into *bool) reader {
	return func(field string, n *yaml.Node) {
		var v *bool
		p.boolean(&v)(field, n)
		*into = v != nil && *v
	}
}

func (p *parser) integer(into **int, low, high int) reader {
	return p.scalar(func() { *into = nil }, func(s string) error {
		v, err := strconv.Atoi(s)
		if err != nil || v < low || v > high {
			return fmt.Errorf("want a whole number from %d to %d, or null when unknown", low, high)
		}
		*into = &v
		return nil
	})
}
