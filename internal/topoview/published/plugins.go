// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package published

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/deviceplugin"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/topoview"
)

// AddPlugins adds to a node what its device plugins offer and which pods have it. GPUs
// that no driver publishes come to the machine; what cannot be placed is noted.
func (v *View) AddPlugins(r *deviceplugin.Report) error {
	parts := model.Machine{
		Name: v.Machine.Name, Architecture: v.Machine.Architecture,
		NUMANodes: slices.Clone(v.Machine.NUMANodes), CPUs: slices.Clone(v.Machine.CPUs), Roots: slices.Clone(v.Machine.Roots),
		Functions: slices.Clone(v.Machine.Functions), NICs: slices.Clone(v.Machine.NICs), GPUs: slices.Clone(v.Machine.GPUs),
	}
	type holding struct{ who, resource string }
	unplaced := map[holding]int{}
	for _, d := range r.Devices {
		p := topoview.PluginDevice{Resource: d.Resource}
		if d.Held != nil {
			p.Namespace, p.Pod = d.Held.Namespace, d.Held.Pod
		}
		if d.Function == nil {
			who := "no pod has"
			if d.Held != nil {
				who = "pod " + p.Namespace + "/" + p.Pod + " has"
			}
			unplaced[holding{who, d.Resource}]++
			continue
		}
		var err error
		if p.PCI, err = model.ParsePCIAddress(d.Function.Address); err != nil {
			return fmt.Errorf("read what device plugins gave: %s %s: %w", d.Resource, d.ID, err)
		}
		addFunction(&parts, p.PCI, d.Function)
		v.Options.Plugins = append(v.Options.Plugins, p)
	}
	m, err := model.New(parts)
	if err != nil {
		return fmt.Errorf("place what device plugins gave: %w", err)
	}
	v.Machine = m
	for _, h := range slices.SortedFunc(maps.Keys(unplaced), func(a, b holding) int {
		return cmp.Or(cmp.Compare(a.who, b.who), cmp.Compare(a.resource, b.resource))
	}) {
		v.Options.Notes = append(v.Options.Notes, fmt.Sprintf("%s %d of %s by a device plugin, whose ID leads to no PCI device: which GPU it is, or is a part of, is not known",
			h.who, unplaced[h], h.resource))
	}
	return nil
}

// addFunction adds a function that no slice describes, with its root and NUMA node.
func addFunction(parts *model.Machine, address model.PCIAddress, f *deviceplugin.Function) {
	if slices.ContainsFunc(parts.Functions, func(known model.PCIFunction) bool { return known.Address == address }) {
		return
	}
	parts.Functions = append(parts.Functions, model.PCIFunction{
		Address: address, Root: f.Root, Class: f.Class, Vendor: f.Vendor, Device: f.Device,
		DeviceName: ptr.To(productOf(f)), NUMANode: f.NUMANode,
	})
	if !slices.ContainsFunc(parts.Roots, func(r model.PCIRoot) bool { return r.Name == f.Root }) {
		parts.Roots = append(parts.Roots, model.PCIRoot{Name: f.Root, Path: "devices/" + f.Root, Published: f.RootPublished, NUMANode: f.NUMANode})
	}
	if f.NUMANode != nil && !slices.ContainsFunc(parts.NUMANodes, func(n model.NUMANode) bool { return n.ID == *f.NUMANode }) {
		parts.NUMANodes = append(parts.NUMANodes, model.NUMANode{ID: *f.NUMANode})
	}
}

// productOf is the name of the product, or the vendor's and its number.
func productOf(f *deviceplugin.Function) string {
	if f.Product != "" {
		return f.Product
	}
	return fmt.Sprintf("%04x:%04x", f.Vendor, f.Device)
}

// PluginsUnknown notes that a node's device plugins offer GPUs, and why it is not known
// who has which; pods are those that asked for some.
func (v *View) PluginsUnknown(offered, pods []string, why string) {
	note := "a device plugin offers " + strings.Join(offered, ", ") + ", and which pod has which is not known: " + why
	if len(pods) > 0 {
		note += "; pods that asked for some: " + strings.Join(pods, ", ")
	}
	v.Options.Notes = append(v.Options.Notes, note)
}
