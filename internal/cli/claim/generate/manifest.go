// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package generate

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// object is the claim or template as a person would write it: without the fields
// that only the API server sets, and without those that say its defaults.
func (o *newOptions) object(spec *resourceapi.ResourceClaimSpec) (map[string]any, error) {
	meta := metav1.ObjectMeta{Name: o.name, Namespace: o.namespace}
	withoutDefaults(spec)
	var typed runtime.Object = &resourceapi.ResourceClaim{ObjectMeta: meta, Spec: *spec}
	kind := "ResourceClaim"
	if o.template {
		kind = "ResourceClaimTemplate"
		typed = &resourceapi.ResourceClaimTemplate{ObjectMeta: meta, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: *spec}}
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", kind, err)
	}
	object["apiVersion"], object["kind"] = resourceapi.SchemeGroupVersion.String(), kind
	delete(object, "status")
	dropNull(object)
	if inner, ok := object["spec"].(map[string]any); ok && o.template {
		delete(inner, "metadata")
	}
	return object, nil
}

// withoutDefaults unsets what the API server sets by itself
// (kubernetes/pkg/apis/resource/v1/defaults.go).
func withoutDefaults(spec *resourceapi.ResourceClaimSpec) {
	unset := func(mode *resourceapi.DeviceAllocationMode, count *int64) {
		if *mode == resourceapi.DeviceAllocationModeExactCount {
			*mode = ""
		}
		if *count == 1 {
			*count = 0
		}
	}
	for i := range spec.Devices.Requests {
		r := &spec.Devices.Requests[i]
		if r.Exactly != nil {
			unset(&r.Exactly.AllocationMode, &r.Exactly.Count)
		}
		for j := range r.FirstAvailable {
			unset(&r.FirstAvailable[j].AllocationMode, &r.FirstAvailable[j].Count)
		}
	}
}

// dropNull leaves out fields that are null, such as creationTimestamp.
func dropNull(object map[string]any) {
	for name, v := range object {
		if v == nil {
			delete(object, name)
		} else if below, ok := v.(map[string]any); ok {
			dropNull(below)
		}
	}
}

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
