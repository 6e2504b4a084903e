// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/affinity"
	"plumbline.dev/plumbline/internal/verify/expect"
	"plumbline.dev/plumbline/internal/verify/facts"
)

// pluginGPUs counts the GPUs that containers have of device plugins. A plugin
// writes nowhere which it gave: the device files tell.
func (c *court) pluginGPUs() {
	for _, container := range c.found.Containers {
		p := c.promisedContainer(container.ID)
		if p == nil || container.Err != nil || container.FilesErr != nil {
			continue
		}
		for i := range p.GPUs {
			if p.Privileged {
				c.add(Finding{State: StateNote, Code: GPUNotKnown, What: hasOf(&container, &p.GPUs[i]), Why: "it is privileged and has the files of all devices"})
				continue
			}
			c.counted(&container, &p.GPUs[i])
		}
	}
}

// counted judges one container's GPUs of one resource. More than it asked for were
// not given it; fewer may be one GPU that several replicas stand for.
func (c *court) counted(container *facts.Container, asked *expect.PluginGPUs) {
	found := c.pluginFiles(container, asked)
	words := make([]string, len(found))
	for i, f := range found {
		words[i] = f.Path + " " + c.where(f.PCI)
	}
	f := Finding{State: StateOK, What: hasOf(container, asked), Why: strings.Join(words, ", ")}
	switch {
	case len(found) > asked.Count && !c.knowsClaimedGPUs():
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
	c.add(f)
}

func hasOf(container *facts.Container, asked *expect.PluginGPUs) string {
	return fmt.Sprintf("container %s has %d of %s", container.Name, asked.Count, asked.Resource)
}

// knowsClaimedGPUs says whether every GPU that a claim has is known by its address:
// another one may be a claim's and not a plugin's.
func (c *court) knowsClaimedGPUs() bool {
	return len(c.promised.Missing) == 0 && !slices.ContainsFunc(c.promised.Claims, func(claim expect.Claim) bool {
		return slices.ContainsFunc(claim.Devices, func(d expect.Device) bool { return d.Kind == expect.GPU && !d.Admin && d.PCI == nil })
	})
}

// pluginFiles are the device files of a container's GPUs of a resource, one of each
// GPU.
func (c *court) pluginFiles(container *facts.Container, asked *expect.PluginGPUs) []facts.File {
	var found []facts.File
	seen := map[model.PCIAddress]bool{}
	for _, f := range container.Files {
		if f.Kind == facts.FileGPU && !seen[f.PCI] && c.pluginOf(container, f.PCI) == asked {
			seen[f.PCI] = true
			found = append(found, f)
		}
	}
	return found
}

// pluginOf is the resource that a container can have a GPU of; nil for what a claim
// has, for what the container did not ask for, and in a privileged one, which has the
// files of all devices.
func (c *court) pluginOf(container *facts.Container, a model.PCIAddress) *expect.PluginGPUs {
	p, f := c.promisedContainer(container.ID), c.m.Function(a)
	if p == nil || p.Privileged || f == nil || !isGPU(f) || c.claimed[a] != nil {
		return nil
	}
	at := slices.IndexFunc(p.GPUs, func(g expect.PluginGPUs) bool { return g.Vendor == f.Vendor })
	if at < 0 {
		return nil
	}
	return &p.GPUs[at]
}

// resourceOf is the resource that some container has a GPU of; empty for none.
func (c *court) resourceOf(a model.PCIAddress) string {
	for i := range c.found.Containers {
		container := &c.found.Containers[i]
		if !slices.ContainsFunc(container.Files, func(f facts.File) bool { return f.PCI == a }) {
			continue
		}
		if asked := c.pluginOf(container, a); asked != nil {
			return asked.Resource
		}
	}
	return ""
}

// besidePlugins says how near each GPU of a device plugin is to the nearest NIC
// that a claim has: the scheduler, which chose the NIC, did not know the GPU.
func (c *court) besidePlugins() {
	for _, gpu := range c.things {
		if gpu.Resource == "" {
			continue
		}
		var nearest *Thing
		class := affinity.Class(0)
		for i := range c.things {
			nic := &c.things[i]
			if nic.Kind != expect.NIC || nic.Claim == "" || nic.PCI == nil {
				continue
			}
			if is := classOf(c.m, gpu, *nic); nearest == nil || is < class {
				nearest, class = nic, is
			}
		}
		if nearest != nil {
			c.add(Finding{
				State: StateNote, Claim: nearest.Claim,
				What: fmt.Sprintf("%s of %s beside %s", gpu.Name, gpu.Resource, nearest.Name),
				Why:  fmt.Sprintf("%s, %s: %s %s, %s %s", class, class.Meaning(), gpu.Name, gpu.Root, nearest.Name, nearest.Root),
			})
		}
	}
}
