// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"slices"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/verify/evaluate"
	"plumbline.dev/plumbline/internal/verify/expect"
)

// Plugged is a GPU that a pod of the node has as a whole of a device plugin, as the
// kubelet says. Such a pod may have no claim, and is not looked at then.
type Plugged struct {
	Namespace, Pod string
	// Resource is the extended resource, such as nvidia.com/gpu.
	Resource string
	PCI      model.PCIAddress
}

// HaveGPUs says whether a claim of some pod has a GPU, or a part of one: only then it
// matters what device plugins gave.
func HaveGPUs(results []Result) bool {
	return slices.ContainsFunc(results, func(r Result) bool { return len(claimedGPUs(&r)) > 0 })
}

// claimedGPUs are those of a pod's claims, by their address, each once.
func claimedGPUs(r *Result) []model.PCIAddress {
	var list []model.PCIAddress
	for _, claim := range r.Expected.Claims {
		for _, d := range claim.Devices {
			if d.Kind == expect.GPU && d.PCI != nil && !d.Admin && !slices.Contains(list, *d.PCI) {
				list = append(list, *d.PCI)
			}
		}
	}
	return list
}

// AgainstPlugins flags pods whose claimed GPU a device plugin gave to another pod. Pods
// among the results that have such a GPU by their device files were compared already.
func AgainstPlugins(results []Result, plugged []Plugged) {
	seen := map[string][]model.PCIAddress{}
	for i := range results {
		for _, t := range results[i].Components {
			if t.Kind == expect.GPU && t.PCI != nil && t.Resource != "" {
				name := results[i].name()
				seen[name] = append(seen[name], *t.PCI)
			}
		}
	}
	for i := range results {
		r := &results[i]
		for _, gpu := range claimedGPUs(r) {
			for _, p := range plugged {
				other := p.Namespace + "/" + p.Pod
				if p.PCI != gpu || other == r.name() || slices.Contains(seen[other], gpu) {
					continue
				}
				sharesWith(r, other, evaluate.DeviceShared, holdings(r, gpu)[0].claim.Name, "no GPU serves a claim and a device plugin ("+p.Resource+")", "GPU "+gpu.String())
				break
			}
		}
	}
}

// PluginsUnknown notes of pods with GPUs of claims that it is not known what device
// plugins gave to others.
func PluginsUnknown(results []Result, why string) {
	for i := range results {
		r := &results[i]
		if len(claimedGPUs(r)) == 0 {
			continue
		}
		r.Findings = append(r.Findings, evaluate.Finding{
			State: evaluate.StateNote, Code: evaluate.NotRead, What: "whether a device plugin gave its GPUs to another pod is not known", Why: why,
		})
	}
}

func (r *Result) name() string { return r.Expected.Namespace + "/" + r.Expected.Name }
