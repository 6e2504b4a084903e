// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package generate

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"
)

// order is how people write a claim; other fields follow, by their names.
var order = []string{
	"apiVersion", "kind", "metadata", "name", "namespace", "spec", "devices",
	"deviceClassName", "count", "capacity", "requests", "constraints", "config", "opaque", "driver", "parameters",
}

// printYAML writes an object as a person would: what something is called before
// what it is, requests before what holds them together, and lists of names on one
// line.
func printYAML(out io.Writer, object map[string]any) error {
	var n yaml.Node
	if err := n.Encode(object); err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	arrange(&n)
	e := yaml.NewEncoder(out)
	e.SetIndent(2)
	e.CompactSeqIndent()
	if err := e.Encode(&n); err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	return nil
}

func arrange(n *yaml.Node) {
	for _, below := range n.Content {
		arrange(below)
	}
	switch n.Kind {
	case yaml.MappingNode:
		fields := slices.Collect(slices.Chunk(n.Content, 2))
		slices.SortStableFunc(fields, func(a, b []*yaml.Node) int { return cmp.Compare(rank(a[0].Value), rank(b[0].Value)) })
		n.Content = slices.Concat(fields...)
	case yaml.SequenceNode:
		if !slices.ContainsFunc(n.Content, func(c *yaml.Node) bool { return c.Kind != yaml.ScalarNode }) {
			n.Style = yaml.FlowStyle
		}
	}
}

func rank(field string) int {
	if i := slices.Index(order, field); i >= 0 {
		return i
	}
	return len(order)
}
