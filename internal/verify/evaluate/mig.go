// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/verify/collect"
	"plumbline.dev/plumbline/internal/verify/expect"
)

// gpuInstance is what a container has of one GPU instance: the capability files of
// the instance itself and of the compute instances in it.
type gpuInstance struct {
	id       int
	access   string
	computes map[int]string
}

// usable says that both files are there which it takes to run anything.
func (g *gpuInstance) usable() bool { return g.access != "" && len(g.computes) > 0 }

// text names it with its files.
func (g *gpuInstance) text() string {
	files := withoutEmpty(g.access)
	for _, id := range slices.Sorted(maps.Keys(g.computes)) {
		files = append(files, g.computes[id])
	}
	for i := range files[1:] {
		files[i+1] = path.Base(files[i+1])
	}
	text := fmt.Sprintf("GPU instance %d (%s)", g.id, strings.Join(files, ", "))
	switch {
	case g.access == "":
		text += " without its own file"
	case len(g.computes) == 0:
		text += " without a compute instance's file"
	}
	return text
}

// instancesOf are a container's instances of a GPU, by their numbers.
func instancesOf(container *collect.Container, gpu model.PCIAddress) []*gpuInstance {
	byID := map[int]*gpuInstance{}
	for _, c := range container.Capabilities {
		if c.PCI != gpu {
			continue
		}
		g := byID[c.Instance]
		if g == nil {
			g = &gpuInstance{id: c.Instance, computes: map[int]string{}}
			byID[c.Instance] = g
		}
		if c.Compute == nil {
			g.access = c.Path
		} else {
			g.computes[*c.Compute] = c.Path
		}
	}
	return slices.SortedFunc(maps.Values(byID), func(a, b *gpuInstance) int { return cmp.Compare(a.id, b.id) })
}

func textOf(instances []*gpuInstance) string {
	words := make([]string, len(instances))
	for i, g := range instances {
		words[i] = g.text()
	}
	return strings.Join(words, ", ")
}

// parts is how many instances of a GPU a container should have: a GPU instance and a
// compute instance for each MIG device, but for those of profiles such as 1c.3g.71gb,
// which are compute instances and may be of one GPU instance together.
type parts struct {
	devices, computeOnly int
	// unnamed are of requests that no container names: any may have them.
	unnamed int
}

// fewest and most are how many GPU instances that can be.
func (p parts) fewest() int { return p.devices - p.computeOnly + min(p.computeOnly, 1) }
func (p parts) most() int   { return p.devices + p.unnamed }

// partsOf counts the MIG devices of one GPU that a container names, each once.
func (e *evaluator) partsOf(container *expect.Container, gpu model.PCIAddress) parts {
	var p parts
	seen := map[expect.ID]bool{}
	for _, claim := range e.expected.Claims {
		for i := range claim.Devices {
			d := &claim.Devices[i]
			id := expect.ID{Driver: d.Driver, Pool: d.Pool, Device: d.Name}
			if d.MIG == nil || d.PCI == nil || *d.PCI != gpu || seen[id] {
				continue
			}
			switch {
			case container != nil && container.Names(claim.Name, d.Request):
				seen[id] = true
				p.devices++
				if d.MIG.ComputeOnly() {
					p.computeOnly++
				}
			case !e.named(claim.Name, d):
				seen[id] = true
				p.unnamed++
			}
		}
	}
	return p
}

// mig looks for the instance of a MIG device in the containers that name it, whose
// GPU's file is there. Which instance a device got its driver says nowhere, so they
// are counted.
func (e *evaluator) mig(claim *expect.Claim, d *expect.Device, f *Finding) {
	var found []string
	for i := range e.observed.Containers {
		container := &e.observed.Containers[i]
		p := e.expectedContainer(container.ID)
		if p == nil || !p.Names(claim.Name, d.Request) || p.Privileged {
			continue
		}
		if container.CapabilitiesErr != nil {
			f.State, f.Code, f.Why = StateUnknown, NotRead, container.CapabilitiesErr.Error()
			return
		}
		instances, want := instancesOf(container, *d.PCI), e.partsOf(p, *d.PCI)
		there, computes := 0, 0
		for _, g := range instances {
			if g.usable() {
				there++
				computes += len(g.computes)
			}
		}
		if there < want.fewest() || computes < want.devices {
			e.missingInstance(container, d, f, instances, want)
			return
		}
		found = append(found, textOf(instances))
	}
	if len(found) > 0 {
		f.Why = fmt.Sprintf("%s: %s of %s", d.MIG.Profile, strings.Join(slices.Compact(found), "; "), f.Why)
	}
}

// missingInstance flags a MIG device of which the container has the GPU's file alone,
// or fewer instances than it has such devices.
func (e *evaluator) missingInstance(container *collect.Container, d *expect.Device, f *Finding, instances []*gpuInstance, want parts) {
	there := cmp.Or(textOf(instances), "none")
	claimed := d.MIG.Profile + " of " + d.PCI.String()
	why := fmt.Sprintf("container %s has the file of the GPU %s, and no capability file of a GPU instance of it", container.Name, d.PCI)
	switch others := e.otherInstances(container, *d.PCI); {
	case len(instances) > 0 && want.devices > 1:
		why = fmt.Sprintf("container %s names %d MIG devices of the GPU %s and has %s", container.Name, want.devices, d.PCI, there)
	case len(instances) > 0:
		why = fmt.Sprintf("container %s has of the GPU %s %s", container.Name, d.PCI, there)
	case others != "":
		why += "; there is " + others
		there = others
	}
	f.wrong(DeviceMissing, why, Difference{Of: deviceWords(d), Attribute: "GPU instance", Claimed: claimed, Observed: there})
}

// otherInstances are a container's instances of other GPUs.
func (e *evaluator) otherInstances(container *collect.Container, gpu model.PCIAddress) string {
	var words []string
	for _, other := range gpusOf(container) {
		if other != gpu {
			words = append(words, textOf(instancesOf(container, other))+" of "+other.String())
		}
	}
	return strings.Join(words, ", ")
}

// gpusOf are the GPUs of a container's capability files.
func gpusOf(container *collect.Container) []model.PCIAddress {
	var gpus []model.PCIAddress
	for _, c := range container.Capabilities {
		if !slices.Contains(gpus, c.PCI) {
			gpus = append(gpus, c.PCI)
		}
	}
	return gpus
}

// noOtherInstance catches instances that no claim of the pod has. Of a GPU that the
// pod has as a whole all are its own, and a device plugin gives instances too.
func (e *evaluator) noOtherInstance(container *collect.Container) {
	p := e.expectedContainer(container.ID)
	for _, gpu := range gpusOf(container) {
		if e.hasWhole(gpu) || e.pluginHas(p, gpu) {
			continue
		}
		instances, want := instancesOf(container, gpu), e.partsOf(p, gpu)
		computes := 0
		for _, g := range instances {
			computes += len(g.computes)
		}
		if len(instances) <= want.most() && computes <= want.most() {
			continue
		}
		there := textOf(instances) + " of " + gpu.String()
		f := Finding{What: "no other MIG device in container " + container.Name}
		why := fmt.Sprintf("it has %s, for %d MIG devices that it names", there, want.most())
		f.wrong(DeviceNotClaimed, why, Difference{
			Of: "container " + container.Name, Attribute: "GPU instances", Claimed: strconv.Itoa(want.most()), Observed: there,
		})
		e.add(f)
	}
}

// hasWhole says whether a claim of the pod has a GPU as a whole.
func (e *evaluator) hasWhole(gpu model.PCIAddress) bool {
	return slices.ContainsFunc(e.expected.Claims, func(claim expect.Claim) bool {
		return slices.ContainsFunc(claim.Devices, func(d expect.Device) bool {
			return d.Kind == expect.GPU && d.MIG == nil && d.PCI != nil && *d.PCI == gpu
		})
	})
}

// pluginHas says whether a container may have a GPU of a device plugin.
func (e *evaluator) pluginHas(p *expect.Container, gpu model.PCIAddress) bool {
	f := e.m.Function(gpu)
	return p != nil && f != nil && slices.ContainsFunc(p.GPUs, func(g expect.PluginGPUs) bool { return g.Vendor == f.Vendor })
}
