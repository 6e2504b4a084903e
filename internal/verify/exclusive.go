// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"fmt"
	"slices"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/verify/collect"
	"plumbline.dev/plumbline/internal/verify/evaluate"
	"plumbline.dev/plumbline/internal/verify/expect"
)

// exclusive flags pods that have what is another one's: CPUs of claims, GPUs, and
// instances of GPUs.
func exclusive(results []Result) {
	exclusiveCPUs(results)
	gpus := map[model.PCIAddress][]*Result{}
	for i := range results {
		for _, t := range results[i].Components {
			if t.Kind == expect.GPU && t.PCI != nil && (t.Resource != "" || len(holdings(&results[i], *t.PCI)) > 0) {
				gpus[*t.PCI] = append(gpus[*t.PCI], &results[i])
			}
		}
	}
	for i := range results {
		for _, t := range results[i].Components {
			if t.PCI == nil || !slices.Contains(gpus[*t.PCI], &results[i]) {
				continue
			}
			for _, other := range gpus[*t.PCI] {
				if other != &results[i] {
					compareGPU(&results[i], other, *t.PCI)
				}
			}
		}
	}
}

// exclusiveCPUs flags containers of different pods that share CPUs of claims.
func exclusiveCPUs(results []Result) {
	holder := map[int]*Result{}
	for i := range results {
		r := &results[i]
		for _, t := range r.Components {
			if t.Kind != expect.CPUs || t.Claim == "" {
				continue
			}
			for _, cpu := range t.CPUs.List() {
				other, taken := holder[cpu]
				if !taken {
					holder[cpu] = r
				}
				if taken && other != r {
					what, attribute := "no CPU serves two claims", fmt.Sprintf("CPU %d", cpu)
					shares(r, other, evaluate.CPUsShared, t.Claim, what, attribute)
					shares(other, r, evaluate.CPUsShared, "", what, attribute)
					break
				}
			}
		}
	}
}

// shares flags r, which has something of the other's.
func shares(r, other *Result, code evaluate.Code, claim, what, attribute string) {
	sharesWith(r, other.name(), code, claim, what, attribute)
}

// sharesWith flags r, which has something of a pod by that namespace and name.
func sharesWith(r *Result, holder string, code evaluate.Code, claim, what, attribute string) {
	r.Findings = append(r.Findings, evaluate.Finding{
		State: evaluate.StateWrong, Code: code, Claim: claim, What: what,
		Why:     fmt.Sprintf("%s is %s's too", attribute, holder),
		Differs: &evaluate.Difference{Of: "the pod", Attribute: attribute, Claimed: "for it alone", Observed: holder + " has it too"},
	})
	r.Verdict = evaluate.Conclude(r.Findings)
}

// compareGPU flags r, which has a GPU that another pod has as well, unless both may:
// by one claim, by shares of one device, as MIG devices, or of a device plugin, which
// can offer a GPU several times.
func compareGPU(r, other *Result, gpu model.PCIAddress) {
	held, others := holdings(r, gpu), holdings(other, gpu)
	all := slices.Concat(held, others)
	claim := ""
	if len(held) > 0 {
		claim = held[0].claim.Name
	}
	whole := slices.ContainsFunc(all, func(h holding) bool { return h.device.MIG == nil })
	switch {
	case len(all) == 0: // both have it of a plugin
	case !whole && !overlap(held, others):
		compareInstances(r, other, gpu, claim)
	case len(held) == 0 || len(others) == 0:
		shares(r, other, evaluate.DeviceShared, claim, "no GPU serves a claim and a device plugin", "GPU "+gpu.String())
	case !beside(held, others):
		shares(r, other, evaluate.DeviceShared, claim, "no GPU serves two claims", "GPU "+gpu.String())
	}
}

// overlap says whether two pods have one device.
func overlap(held, others []holding) bool {
	return slices.ContainsFunc(held, func(h holding) bool {
		return slices.ContainsFunc(others, func(o holding) bool { return h.device.Name == o.device.Name })
	})
}

// beside says whether two pods may have what they have at the same time.
func beside(held, others []holding) bool {
	return !slices.ContainsFunc(held, func(h holding) bool {
		return slices.ContainsFunc(others, func(o holding) bool { return !h.beside(o) })
	})
}

// compareInstances flags a pod that has an instance of a GPU of which another pod has
// it too, by another MIG device.
func compareInstances(r, other *Result, gpu model.PCIAddress, claim string) {
	for _, container := range r.Observed.Containers {
		for _, c := range container.Capabilities {
			if c.PCI == gpu && c.Compute != nil && hasInstance(other, c) && !reachesAll(r, container.ID) {
				shares(r, other, evaluate.DeviceShared, claim, "no MIG device serves two claims",
					fmt.Sprintf("compute instance %d of GPU instance %d of %s", *c.Compute, c.Instance, gpu))
				return
			}
		}
	}
}

func hasInstance(r *Result, wanted collect.Capability) bool {
	return slices.ContainsFunc(r.Observed.Containers, func(container collect.Container) bool {
		return !reachesAll(r, container.ID) && slices.ContainsFunc(container.Capabilities, func(c collect.Capability) bool { return c.Number == wanted.Number })
	})
}

// reachesAll says whether a container is privileged, and has the files of all devices.
func reachesAll(r *Result, container string) bool {
	return slices.ContainsFunc(r.Expected.Containers, func(c expect.Container) bool { return c.ID == container && c.Privileged })
}

// holding is a claim's device at a GPU.
type holding struct {
	claim  *expect.Claim
	device *expect.Device
}

// holdings are what the claims of a pod have of a GPU. AMD's partitions are none: they
// have no address of their own, and no files by which they could be told.
func holdings(r *Result, gpu model.PCIAddress) []holding {
	var list []holding
	for i := range r.Expected.Claims {
		claim := &r.Expected.Claims[i]
		for k := range claim.Devices {
			d := &claim.Devices[k]
			if d.Kind == expect.GPU && d.PCI != nil && *d.PCI == gpu && !d.Admin {
				list = append(list, holding{claim, d})
			}
		}
	}
	return list
}

// beside says whether two pods may have these at the same time.
func (h holding) beside(other holding) bool {
	switch {
	case h.claim.Namespace == other.claim.Namespace && h.claim.Name == other.claim.Name:
		return true
	case h.device.Name == other.device.Name:
		return h.device.Shared && other.device.Shared
	}
	return h.device.MIG != nil && other.device.MIG != nil
}
