// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/verify/expect"
	"plumbline.dev/plumbline/internal/verify/facts"
)

// claim looks for every device of a claim but CPUs, which belong to containers.
func (c *court) claim(claim *expect.Claim) {
	for i := range claim.Devices {
		d := &claim.Devices[i]
		d.Kind = c.kindOf(d)
		if d.PCI != nil {
			c.claimed[*d.PCI] = d
		}
		f := Finding{Claim: claim.Name, What: fmt.Sprintf("%s is %s", d.Request, d.Name)}
		switch {
		case d.Admin:
			f.State, f.Why = StateNote, "for administration: looked at, not held"
		case d.Kind == expect.CPUs:
			continue
		case d.Kind == expect.NIC:
			c.nic(claim, d, &f)
		case d.Kind == expect.GPU:
			c.gpu(claim, d, &f)
		default:
			f.State, f.Why = StateNote, fmt.Sprintf("a device of %s: nothing of the kernel's to compare it with", d.Driver)
			c.setPlace(claim.Name, place{device: d, pci: d.PCI})
		}
		c.add(f)
	}
}

// kindOf tells by the class of the PCI function what a device of a driver is
// that nobody here knows.
func (c *court) kindOf(d *expect.Device) expect.Kind {
	if d.Kind != expect.PCI {
		return d.Kind
	}
	switch f := c.m.Function(*d.PCI); {
	case f == nil:
		return ""
	case f.ClassByte() == model.PCIClassNetwork:
		return expect.NIC
	case isGPU(f):
		return expect.GPU
	}
	return ""
}

func isGPU(f *model.PCIFunction) bool {
	return f != nil && (f.ClassByte() == model.PCIClassDisplay || f.ClassByte() == model.PCIClassAccelerator)
}

func (c *court) nic(claim *expect.Claim, d *expect.Device, f *Finding) {
	name, known := c.interfaceOf(d)
	rdma := c.fileOf(claim.Name, d, facts.FileRDMA, facts.FileVFIO)
	switch {
	case d.PCI == nil && name != "":
		f.State, f.Why = StateOK, "interface "+name+", which is no PCI function"
		c.setPlace(claim.Name, place{device: d})
	case name != "" || rdma != "" && d.Interface == "":
		f.State, f.Why = StateOK, strings.Join(withoutEmpty(name, rdma), ", ")+" "+c.where(*d.PCI)
		c.setPlace(claim.Name, place{device: d, pci: d.PCI})
	case c.promised.HostNetwork:
		f.State, f.Code, f.Why = StateUnknown, NotRead, "a pod in the host's network sees all interfaces"
	case !known:
		f.State, f.Code, f.Why = StateUnknown, NotRead, "the pod's interfaces are not known"
	case d.PCI == nil && d.Interface == "":
		f.State, f.Code, f.Why = StateUnknown, NotRead, "neither a slice nor the claim's status says which interface that is"
	default:
		c.missingNIC(d, f)
	}
}

// missingNIC convicts of a NIC that is not there.
func (c *court) missingNIC(d *expect.Device, f *Finding) {
	differs := Difference{Of: deviceWords(d), Attribute: slicecodec.AttrPCIBusID, Claimed: d.Interface}
	if d.PCI != nil {
		differs.Claimed = d.PCI.String()
	}
	var there []string
	for _, i := range c.found.Network.Interfaces {
		switch {
		case i.PCI != nil:
			there = append(there, i.Name+" at "+i.PCI.String())
		case d.PCI == nil && i.Name == d.Interface:
			why := fmt.Sprintf("the interface %s in the pod has the address %s, the claimed one %s", i.Name, i.MAC, d.MAC)
			f.wrong(DeviceMissing, why, Difference{Of: differs.Of, Attribute: "MAC of " + i.Name, Claimed: d.MAC, Observed: i.MAC})
			return
		}
	}
	if d.PCI == nil {
		differs.Attribute = "interface"
	}
	differs.Observed = strings.Join(there, ", ")
	why := differs.Claimed + " is not in the pod; there is " + differs.Observed
	if len(there) == 0 {
		why, differs.Observed = differs.Claimed+" is not in the pod, nor any other NIC", "no NIC"
	}
	f.wrong(DeviceMissing, why, differs)
}

// deviceWords name a device as its claim does.
func deviceWords(d *expect.Device) string { return d.Request + " = " + d.Name }

// interfaceOf finds a claimed NIC among the pod's interfaces.
func (c *court) interfaceOf(d *expect.Device) (name string, known bool) {
	if c.found.Network.Err != nil {
		return "", false
	}
	for _, i := range c.found.Network.Interfaces {
		if d.PCI != nil && i.PCI != nil && *i.PCI == *d.PCI && !c.promised.HostNetwork {
			return i.Name, true
		}
	}
	if d.PCI != nil {
		return "", true
	}
	return c.virtualOf(d), true
}

// virtualOf finds a claimed interface that is no PCI function: by the address
// that the driver says it has, whatever its pod calls it; only where that is not
// said by its name. Where another interface has its name, the pod was given that
// in its place.
func (c *court) virtualOf(d *expect.Device) string {
	name := ""
	for _, i := range c.found.Network.Interfaces {
		called := i.Name == d.Interface || d.Interface == "" && i.Name == d.Name
		addressed := d.MAC == "" || i.MAC == "" || strings.EqualFold(d.MAC, i.MAC)
		switch {
		case i.PCI != nil:
		case called && addressed:
			return i.Name
		case called:
			return ""
		case !addressed:
		case d.MAC != "" && i.MAC != "":
			name = i.Name
		}
	}
	return name
}

func (c *court) gpu(claim *expect.Claim, d *expect.Device, f *Finding) {
	file := c.fileOf(claim.Name, d, facts.FileGPU, facts.FileVFIO)
	switch {
	case !c.named(claim.Name, d):
		f.State, f.Why = StateNote, "no running container names it"
		c.setPlace(claim.Name, place{device: d, pci: d.PCI})
	case d.PCI == nil:
		f.State, f.Code, f.Why = StateUnknown, NotRead, "no slice publishes its PCI address"
	case file != "":
		f.State, f.Why = StateOK, file+" "+c.where(*d.PCI)
		c.setPlace(claim.Name, place{device: d, pci: d.PCI})
	case c.filesUnread():
		f.State, f.Code, f.Why = StateUnknown, NotRead, "the device files of a container are not known"
	default:
		there := c.otherGPUs()
		why := fmt.Sprintf("no device file of %s is in a container that names it", d.PCI)
		if there != "" {
			why += "; there is " + there
		}
		f.wrong(DeviceMissing, why, Difference{
			Of: deviceWords(d), Attribute: slicecodec.AttrPCIBusID, Claimed: d.PCI.String(), Observed: cmp.Or(there, "no GPU"),
		})
	}
}

func (c *court) otherGPUs() string {
	var there []string
	for _, container := range c.found.Containers {
		for _, f := range container.Files {
			if f.Kind == facts.FileGPU {
				there = append(there, f.Path+" at "+f.PCI.String())
			}
		}
	}
	slices.Sort(there)
	return strings.Join(slices.Compact(there), ", ")
}

// fileOf finds a device's file in the containers that name its request; in all
// where none names it, as drivers give it to all then.
func (c *court) fileOf(claim string, d *expect.Device, kinds ...facts.FileKind) string {
	if d.PCI == nil {
		return ""
	}
	named := c.named(claim, d)
	path := ""
	for _, container := range c.found.Containers {
		p := c.promisedContainer(container.ID)
		if named && (p == nil || !p.Names(claim, d.Request)) {
			continue
		}
		at := slices.IndexFunc(container.Files, func(f facts.File) bool { return f.PCI == *d.PCI && slices.Contains(kinds, f.Kind) })
		if at < 0 {
			return ""
		}
		path = container.Files[at].Path
	}
	return path
}

// named says whether a running container names a device's request.
func (c *court) named(claim string, d *expect.Device) bool {
	return slices.ContainsFunc(c.promised.Containers, func(p expect.Container) bool { return p.Names(claim, d.Request) })
}

func (c *court) filesUnread() bool {
	return slices.ContainsFunc(c.found.Containers, func(f facts.Container) bool { return f.Err != nil || f.FilesErr != nil })
}

// where says in words where a function is.
func (c *court) where(a model.PCIAddress) string {
	f := c.m.Function(a)
	if f == nil {
		return fmt.Sprintf("at %s, which the node does not show", a)
	}
	node := "NUMA node unknown"
	if f.NUMANode != nil {
		node = fmt.Sprintf("NUMA node %d", *f.NUMANode)
	}
	return fmt.Sprintf("at %s, root %s, %s", a, f.Root, node)
}

// nothingElse catches devices that no claim of the pod has. It is silent on
// kinds that the pod claims nothing of: device plugins and CNI plugins give
// devices too.
func (c *court) nothingElse() {
	nics, gpus := c.exact(expect.NIC), c.exact(expect.GPU)
	if nics && !c.promised.HostNetwork && c.found.Network.Err == nil {
		c.noOtherNIC()
	}
	for _, container := range c.found.Containers {
		p := c.promisedContainer(container.ID)
		if p != nil && p.Privileged {
			c.add(Finding{State: StateNote, What: "container " + container.Name, Why: "it is privileged: it reaches every device of the node"})
			continue
		}
		c.noOtherFile(container, nics, gpus)
	}
}

// exact says whether the pod claims devices of a kind, and it is known of all of
// them which they are.
func (c *court) exact(kind expect.Kind) bool {
	some := false
	for _, claim := range c.promised.Claims {
		for i := range claim.Devices {
			d := &claim.Devices[i]
			if d.Kind != kind || d.Admin {
				continue
			}
			if name, _ := c.interfaceOf(d); d.PCI == nil && name == "" {
				return false
			}
			some = true
		}
	}
	return some
}

func (c *court) noOtherNIC() {
	f := Finding{State: StateOK, What: "no other network interface"}
	var names []string
	for _, i := range c.found.Network.Interfaces {
		// What carries the pod's default route came with its network.
		if i.PCI == nil || i.Default || c.claimed[*i.PCI] != nil {
			continue
		}
		names = append(names, i.Name+" "+c.where(*i.PCI))
	}
	f.Why = fmt.Sprintf("%d of PCI functions, all claimed", c.countNICs())
	if len(names) > 0 {
		there := strings.Join(names, ", ")
		f.wrong(DeviceNotClaimed, there, Difference{Of: "the pod", Attribute: "network interfaces", Claimed: c.claimedNames(expect.NIC), Observed: "also " + there})
	}
	c.add(f)
}

func (c *court) countNICs() int {
	n := 0
	for _, i := range c.found.Network.Interfaces {
		if i.PCI != nil && !i.Default {
			n++
		}
	}
	return n
}

func (c *court) noOtherFile(container facts.Container, nics, gpus bool) {
	var others []string
	for _, f := range container.Files {
		kind := f.Kind
		if kind == facts.FileVFIO && isGPU(c.m.Function(f.PCI)) {
			kind = facts.FileGPU
		}
		judged := kind == facts.FileGPU && gpus || kind != facts.FileGPU && nics
		if judged && c.claimed[f.PCI] == nil && (f.Kind != facts.FileGPU || c.pluginOf(&container, f.PCI) == nil) {
			others = append(others, f.Path+" "+c.where(f.PCI))
		}
	}
	if len(others) > 0 {
		f := Finding{What: "no other device in container " + container.Name}
		there := strings.Join(others, ", ")
		f.wrong(DeviceNotClaimed, there, Difference{
			Of: "container " + container.Name, Attribute: "device files", Claimed: c.claimedNames(expect.GPU, expect.NIC), Observed: "also " + there,
		})
		c.add(f)
	}
}

// claimedNames are the requests of all claimed devices of some kinds.
func (c *court) claimedNames(kinds ...expect.Kind) string {
	var names []string
	for _, claim := range c.promised.Claims {
		for _, d := range claim.Devices {
			if slices.Contains(kinds, d.Kind) && !d.Admin {
				names = append(names, d.Request)
			}
		}
	}
	return strings.Join(names, ", ")
}

func withoutEmpty(list ...string) []string {
	return slices.DeleteFunc(list, func(s string) bool { return s == "" })
}
