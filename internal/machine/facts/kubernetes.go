// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"fmt"
	"maps"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"
)

// KubernetesFacts is what the machine's Kubernetes node has from its cloud and from
// its vendors' device plugins.
type KubernetesFacts struct {
	// Labels are the node's labels, such as
	// cloud.google.com/gke-tpu-topology.
	Labels map[string]string
	// ExtendedResources are whole devices that the node offers by name, such
	// as google.com/tpu.
	ExtendedResources map[string]int
}

// kubernetes reads the section of that name.
func (p *parser) kubernetes(into *KubernetesFacts) reader {
	return func(field string, n *yaml.Node) {
		if isNull(n) {
			return
		}
		p.mapping(field, n, map[string]reader{
			"labels":             p.entries(func(key string, _ int, value string) error { return setLabel(into, key, value) }),
			"extended_resources": p.entries(func(key string, line int, value string) error { return p.setResource(into, key, line, value) }),
		})
	}
}

// entries calls set with each key of a mapping and its scalar value. Keys are names of
// the cluster, so that none is a provenance key.
func (p *parser) entries(set func(key string, line int, value string) error) reader {
	return func(field string, n *yaml.Node) {
		if isNull(n) {
			return
		}
		if n.Kind != yaml.MappingNode {
			p.add(n.Line, field, "want a mapping of names to values")
			return
		}
		seen := map[string]int{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			path := field + "." + key.Value
			if first, twice := seen[key.Value]; twice {
				p.add(key.Line, path, "is given twice, first on line %d", first)
				continue
			}
			seen[key.Value] = key.Line
			if value.Kind != yaml.ScalarNode || isNull(value) {
				p.add(value.Line, path, "want one value")
				continue
			}
			if err := set(key.Value, key.Line, value.Value); err != nil {
				p.add(key.Line, path, "%v", err)
			}
		}
	}
}

func setLabel(into *KubernetesFacts, key, value string) error {
	if bad := validation.IsQualifiedName(key); len(bad) > 0 {
		return fmt.Errorf("is no label's name: %s", strings.Join(bad, "; "))
	}
	if bad := validation.IsValidLabelValue(value); len(bad) > 0 {
		return fmt.Errorf("%q: is no label's value: %s", value, strings.Join(bad, "; "))
	}
	into.Labels = with(into.Labels, key, value)
	return nil
}

// maxExtended is far above any machine's number of a device.
const maxExtended = 4096

// setResource takes names with a domain only: one without is Kubernetes' own.
func (p *parser) setResource(into *KubernetesFacts, key string, line int, value string) error {
	if bad := validation.IsQualifiedName(key); len(bad) > 0 || !strings.Contains(key, "/") {
		return fmt.Errorf("is no extended resource: want a name such as google.com/tpu")
	}
	var count *int
	p.integer(&count, 1, maxExtended)(key, &yaml.Node{Kind: yaml.ScalarNode, Value: value, Line: line})
	if count != nil {
		into.ExtendedResources = with(into.ExtendedResources, key, *count)
	}
	return nil
}

func with[V any](m map[string]V, key string, value V) map[string]V {
	out := map[string]V{key: value}
	maps.Copy(out, m)
	return out
}
