// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/affinity"
	"plumbline.dev/plumbline/internal/verify/collect"
	"plumbline.dev/plumbline/internal/verify/expect"
)

// pluginGPUs counts the GPUs that containers have of device plugins. A plugin
// writes nowhere which it gave: only the device files show it.
func (e *evaluator) pluginGPUs() {
	for _, container := range e.observed.Containers {
		p := e.expectedContainer(container.ID)
		if p == nil || container.Err != nil || container.FilesErr != nil {
			continue
		}
		for i := range p.GPUs {
			if p.Privileged {
				e.add(Finding{State: StateNote, Code: GPUNotKnown, What: hasOf(&container, &p.GPUs[i]), Why: "it is privileged and has the files of all devices"})
				continue
			}
			e.counted(&container, &p.GPUs[i])
		}
	}
}

// counted checks the number of one container's GPUs of one resource. More than it asked for were
// not given it; fewer may be one GPU that several replicas stand for.
func (e *evaluator) counted(container *collect.Container, asked *expect.PluginGPUs) {
	found := e.pluginFiles(container, asked)
	words := make([]string, len(found))
	for i, f := range found {
		words[i] = f.Path + " " + e.where(f.PCI)
	}
	f := Finding{State: StateOK, What: hasOf(container, asked), Why: strings.Join(words, ", ")}
	switch {
	case len(found) > asked.Count && !e.knowsClaimedGPUs():
		f.State, f.Code, f.Why = StateUnknown, NotRead, "which GPUs its claims have is not known: "+f.Why
	case len(found) > asked.Count:
		f.wrong(DeviceNotClaimed, f.Why, Difference{
			Of: "container " + container.Name, Attribute: asked.Resource, Claimed: strconv.Itoa(asked.Count), Observed: f.Why,
		})
	case len(found) == 0:
		f.State, f.Code, f.Why = StateNote, GPUNotKnown, "no device file of such a GPU is in the container"
	case len(found) < asked.Count:
		f.State = StateNote
	}
	e.add(f)
}

func hasOf(container *collect.Container, asked *expect.PluginGPUs) string {
	return fmt.Sprintf("container %s has %d of %s", container.Name, asked.Count, asked.Resource)
}

// knowsClaimedGPUs says whether every GPU that a claim has is known by its address:
// another one may be a claim's and not a plugin's.
func (e *evaluator) knowsClaimedGPUs() bool {
	return len(e.expected.Missing) == 0 && !slices.ContainsFunc(e.expected.Claims, func(claim expect.Claim) bool {
		return slices.ContainsFunc(claim.Devices, func(d expect.Device) bool { return d.Kind == expect.GPU && !d.Admin && d.PCI == nil })
	})
}

// pluginFiles are the device files of a container's GPUs of a resource, one of each
// GPU.
func (e *evaluator) pluginFiles(container *collect.Container, asked *expect.PluginGPUs) []collect.File {
	var found []collect.File
	seen := map[model.PCIAddress]bool{}
	for _, f := range container.Files {
		if f.Kind == collect.FileGPU && !seen[f.PCI] && e.pluginOf(container, f.PCI) == asked {
			seen[f.PCI] = true
			found = append(found, f)
		}
	}
	return found
}

// pluginOf is the resource that a container can have a GPU of; nil for what a claim
// has, for what the container did not ask for, and in a privileged one, which has the
// files of all devices.
func (e *evaluator) pluginOf(container *collect.Container, a model.PCIAddress) *expect.PluginGPUs {
	p, f := e.expectedContainer(container.ID), e.m.Function(a)
	if p == nil || p.Privileged || f == nil || !isGPU(f) || e.claimed[a] != nil {
		return nil
	}
	at := slices.IndexFunc(p.GPUs, func(g expect.PluginGPUs) bool { return g.Vendor == f.Vendor })
	if at < 0 {
		return nil
	}
	return &p.GPUs[at]
}

// resourceOf is the resource that some container has a GPU of; empty for none.
func (e *evaluator) resourceOf(a model.PCIAddress) string {
	for i := range e.observed.Containers {
		container := &e.observed.Containers[i]
		if !slices.ContainsFunc(container.Files, func(f collect.File) bool { return f.PCI == a }) {
			continue
		}
		if asked := e.pluginOf(container, a); asked != nil {
			return asked.Resource
		}
	}
	return ""
}

// besidePlugins says how near each GPU of a device plugin is to the nearest NIC
// that a claim has: the scheduler, which chose the NIC, did not know the GPU.
func (e *evaluator) besidePlugins() {
	for _, gpu := range e.components {
		if gpu.Resource == "" {
			continue
		}
		var nearest *Component
		class := affinity.Class(0)
		for i := range e.components {
			nic := &e.components[i]
			if nic.Kind != expect.NIC || nic.Claim == "" || nic.PCI == nil {
				continue
			}
			if is := classOf(e.m, gpu, *nic); nearest == nil || is < class {
				nearest, class = nic, is
			}
		}
		if nearest != nil {
			e.add(Finding{
				State: StateNote, Claim: nearest.Claim,
				What: fmt.Sprintf("%s of %s beside %s", gpu.Name, gpu.Resource, nearest.Name),
				Why:  fmt.Sprintf("%s, %s: %s %s, %s %s", class, class.Meaning(), gpu.Name, gpu.Root, nearest.Name, nearest.Root),
			})
		}
	}
}
