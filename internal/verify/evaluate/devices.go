// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/verify/collect"
	"plumbline.dev/plumbline/internal/verify/expect"
)

// claim looks for every device of a claim but CPUs, which belong to containers.
func (e *evaluator) claim(claim *expect.Claim) {
	for i := range claim.Devices {
		d := &claim.Devices[i]
		d.Kind = e.kindOf(d)
		if function := d.Function(); function != nil {
			e.claimed[*function] = d
		}
		f := Finding{Claim: claim.Name, What: fmt.Sprintf("%s is %s", d.Request, d.Name)}
		switch {
		case d.Admin:
			f.State, f.Why = StateNote, "for administration: looked at, not held"
		case d.Kind == expect.CPUs:
			continue
		case d.Link != nil:
			e.link(claim, d, &f)
		case d.Kind == expect.NIC:
			e.nic(claim, d, &f)
		case d.Kind == expect.GPU:
			e.gpu(claim, d, &f)
		default:
			f.State, f.Why = StateNote, fmt.Sprintf("a device of %s: nothing of the kernel's to compare it with", d.Driver)
			e.setPlace(claim.Name, place{device: d, pci: d.PCI})
		}
		e.add(f)
		if d.Kind == expect.NIC && !d.Admin {
			e.rdma(claim, d)
			e.virtualFunction(claim, d)
		}
	}
}

// kindOf finds by the class of the PCI function what a device of an unknown driver
// is.
func (e *evaluator) kindOf(d *expect.Device) expect.Kind {
	if d.Kind != expect.PCI {
		return d.Kind
	}
	switch f := e.m.Function(*d.PCI); {
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

func (e *evaluator) nic(claim *expect.Claim, d *expect.Device, f *Finding) {
	name, known := e.interfaceOf(d)
	rdma := e.fileOf(claim.Name, d, collect.FileRDMA, collect.FileVFIO)
	switch {
	case d.PCI == nil && name != "":
		f.State, f.Why = StateOK, "interface "+name+", which is no PCI function"
		e.setPlace(claim.Name, place{device: d})
	case name != "" || rdma != "" && d.Interface == "":
		f.State, f.Why = StateOK, strings.Join(withoutEmpty(name, rdma), ", ")+" "+e.where(*d.PCI)
		e.setPlace(claim.Name, place{device: d, pci: d.PCI})
	case e.expected.HostNetwork:
		f.State, f.Code, f.Why = StateUnknown, NotRead, "a pod in the host's network sees all interfaces"
	case !known:
		f.State, f.Code, f.Why = StateUnknown, NotRead, "the pod's interfaces are not known"
	case d.PCI == nil && d.Interface == "":
		f.State, f.Code, f.Why = StateUnknown, NotRead, "neither a slice nor the claim's status says which interface that is"
	default:
		e.missingNIC(d, f)
	}
}

// missingNIC flags a NIC that is not there.
func (e *evaluator) missingNIC(d *expect.Device, f *Finding) {
	differs := Difference{Of: deviceWords(d), Attribute: slicecodec.AttrPCIBusID, Claimed: d.Interface}
	if d.PCI != nil {
		differs.Claimed = d.PCI.String()
	}
	var there []string
	for _, i := range e.observed.Network.Interfaces {
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
func (e *evaluator) interfaceOf(d *expect.Device) (name string, known bool) {
	if e.observed.Network.Err != nil {
		return "", false
	}
	for _, i := range e.observed.Network.Interfaces {
		if d.PCI != nil && i.PCI != nil && *i.PCI == *d.PCI && !e.expected.HostNetwork {
			return i.Name, true
		}
	}
	if d.PCI != nil {
		return "", true
	}
	if i := e.linkOf(d); i != nil {
		return i.Name, true
	}
	return e.virtualOf(d), true
}

// virtualOf finds a claimed interface that is no PCI function: by the address
// that the driver says it has, whatever its pod calls it; only where that is not
// said by its name. Where another interface has its name, the pod was given that
// in its place.
func (e *evaluator) virtualOf(d *expect.Device) string {
	name := ""
	for _, i := range e.observed.Network.Interfaces {
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

func (e *evaluator) gpu(claim *expect.Claim, d *expect.Device, f *Finding) {
	file := e.fileOf(claim.Name, d, collect.FileGPU, collect.FileVFIO)
	switch {
	case !e.named(claim.Name, d):
		f.State, f.Why = StateNote, "no running container names it"
		e.setPlace(claim.Name, place{device: d, pci: d.PCI})
	case d.PCI == nil:
		f.State, f.Code, f.Why = StateUnknown, NotRead, "no slice publishes its PCI address"
	case file != "":
		f.State, f.Why = StateOK, file+" "+e.where(*d.PCI)
		e.setPlace(claim.Name, place{device: d, pci: d.PCI})
		if d.MIG != nil {
			e.mig(claim, d, f)
		}
	case e.filesUnread():
		f.State, f.Code, f.Why = StateUnknown, NotRead, "the device files of a container are not known"
	default:
		there := e.otherGPUs()
		why := fmt.Sprintf("no device file of %s is in a container that names it", d.PCI)
		if there != "" {
			why += "; there is " + there
		}
		f.wrong(DeviceMissing, why, Difference{
			Of: deviceWords(d), Attribute: slicecodec.AttrPCIBusID, Claimed: d.PCI.String(), Observed: cmp.Or(there, "no GPU"),
		})
	}
}

func (e *evaluator) otherGPUs() string {
	var there []string
	for _, container := range e.observed.Containers {
		for _, f := range container.Files {
			if f.Kind == collect.FileGPU {
				there = append(there, f.Path+" at "+f.PCI.String())
			}
		}
	}
	slices.Sort(there)
	return strings.Join(slices.Compact(there), ", ")
}

// fileOf finds a device's file in the containers that name its request; in all
// where none names it, as drivers give it to all then.
func (e *evaluator) fileOf(claim string, d *expect.Device, kinds ...collect.FileKind) string {
	if d.PCI == nil {
		return ""
	}
	named := e.named(claim, d)
	path := ""
	for _, container := range e.observed.Containers {
		p := e.expectedContainer(container.ID)
		if named && (p == nil || !p.Names(claim, d.Request)) {
			continue
		}
		at := slices.IndexFunc(container.Files, func(f collect.File) bool { return f.PCI == *d.PCI && slices.Contains(kinds, f.Kind) })
		if at < 0 {
			return ""
		}
		path = container.Files[at].Path
	}
	return path
}

// named says whether a running container names a device's request.
func (e *evaluator) named(claim string, d *expect.Device) bool {
	return slices.ContainsFunc(e.expected.Containers, func(p expect.Container) bool { return p.Names(claim, d.Request) })
}

func (e *evaluator) filesUnread() bool {
	return slices.ContainsFunc(e.observed.Containers, func(f collect.Container) bool { return f.Err != nil || f.FilesErr != nil })
}

// where says in words where a function is.
func (e *evaluator) where(a model.PCIAddress) string {
	f := e.m.Function(a)
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
func (e *evaluator) nothingElse() {
	nics, gpus := e.exact(expect.NIC), e.exact(expect.GPU)
	if nics && !e.expected.HostNetwork && e.observed.Network.Err == nil {
		e.noOtherNIC()
	}
	for _, container := range e.observed.Containers {
		p := e.expectedContainer(container.ID)
		if p != nil && p.Privileged {
			e.add(Finding{State: StateNote, What: "container " + container.Name, Why: "it is privileged: it reaches every device of the node"})
			continue
		}
		e.noOtherFile(container, nics, gpus)
		if gpus {
			e.noOtherInstance(&container)
		}
	}
}

// exact says whether the pod claims devices of a kind, and it is known of all of
// them which they are.
func (e *evaluator) exact(kind expect.Kind) bool {
	some := false
	for _, claim := range e.expected.Claims {
		for i := range claim.Devices {
			d := &claim.Devices[i]
			if d.Kind != kind || d.Admin {
				continue
			}
			if name, _ := e.interfaceOf(d); d.PCI == nil && name == "" {
				return false
			}
			some = true
		}
	}
	return some
}

func (e *evaluator) noOtherNIC() {
	f := Finding{State: StateOK, What: "no other network interface"}
	var names []string
	for _, i := range e.observed.Network.Interfaces {
		// What carries the pod's default route came with its network.
		if i.PCI == nil || i.Default || e.claimed[*i.PCI] != nil {
			continue
		}
		names = append(names, i.Name+" "+e.where(*i.PCI))
	}
	f.Why = fmt.Sprintf("%d of PCI functions, all claimed", e.countNICs())
	if len(names) > 0 {
		there := strings.Join(names, ", ")
		f.wrong(DeviceNotClaimed, there, Difference{Of: "the pod", Attribute: "network interfaces", Claimed: e.claimedNames(expect.NIC), Observed: "also " + there})
	}
	e.add(f)
}

func (e *evaluator) countNICs() int {
	n := 0
	for _, i := range e.observed.Network.Interfaces {
		if i.PCI != nil && !i.Default {
			n++
		}
	}
	return n
}

func (e *evaluator) noOtherFile(container collect.Container, nics, gpus bool) {
	var others []string
	for _, f := range container.Files {
		kind := f.Kind
		if kind == collect.FileVFIO && isGPU(e.m.Function(f.PCI)) {
			kind = collect.FileGPU
		}
		judged := kind == collect.FileGPU && gpus || kind != collect.FileGPU && nics
		if judged && e.claimed[f.PCI] == nil && (f.Kind != collect.FileGPU || e.pluginOf(&container, f.PCI) == nil) {
			others = append(others, f.Path+" "+e.where(f.PCI))
		}
	}
	if len(others) > 0 {
		f := Finding{What: "no other device in container " + container.Name}
		there := strings.Join(others, ", ")
		f.wrong(DeviceNotClaimed, there, Difference{
			Of: "container " + container.Name, Attribute: "device files", Claimed: e.claimedNames(expect.GPU, expect.NIC), Observed: "also " + there,
		})
		e.add(f)
	}
}

// claimedNames are the requests of all claimed devices of some kinds.
func (e *evaluator) claimedNames(kinds ...expect.Kind) string {
	var names []string
	for _, claim := range e.expected.Claims {
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
