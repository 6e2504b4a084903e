// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package topoview

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/plural"
)

// partsByFunction lists the parts of each GPU, by name: shorter names first, so that
// the last number counts.
func (b *builder) partsByFunction() {
	b.parts = map[model.PCIAddress][]DeviceID{}
	for id, p := range b.o.Parts {
		b.parts[p.PCI] = append(b.parts[p.PCI], id)
	}
	for _, list := range b.parts {
		slices.SortFunc(list, func(x, y DeviceID) int {
			return cmp.Or(cmp.Compare(len(x.Name), len(y.Name)), cmp.Compare(x.Name, y.Name))
		})
	}
}

// addParts adds to a GPU its parts that are there or held, with the GPU for a virtual
// machine, and sums up those that a claim would make. Who holds a part holds the GPU.
func (b *builder) addParts(d *Device, address model.PCIAddress) {
	for _, id := range b.parts[address] {
		of := b.o.Parts[id]
		p := Part{
			Driver: id.Driver, Name: id.Name, MemoryMiB: mebibytes(of.MemoryBytes),
			VFIO: of.VFIO, Claims: b.claims.keysOf(id), SharedBy: b.claims.sharers(b.claims.of(id)), Taint: b.o.Published[id].Taint,
		}
		if of.MIG != nil {
			p.Profile = of.MIG.Profile
		}
		switch {
		case of.Made || of.VFIO || len(p.Claims) > 0:
			d.Parts = append(d.Parts, p)
		case p.Profile != "" && !slices.Contains(d.Profiles, p.Profile):
			d.Profiles = append(d.Profiles, p.Profile)
		}
		d.Claims = append(d.Claims, p.Claims...)
	}
	slices.Sort(d.Profiles)
	d.Claims = sortedKeys(d.Claims)
}

// sortedKeys puts keys in order, each once. They are letters with a number behind them:
// A2 comes after Z.
func sortedKeys(keys []string) []string {
	slices.SortFunc(keys, func(x, y string) int { return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)) })
	return slices.Compact(keys)
}

// WholeClaims are the keys of the claims that hold the device and no part of it.
func (d *Device) WholeClaims() []string {
	return slices.DeleteFunc(slices.Clone(d.Claims), func(key string) bool {
		return slices.ContainsFunc(d.Parts, func(p Part) bool { return slices.Contains(p.Claims, key) })
	})
}

// split says whether a claim holds a part of the device.
func (d *Device) split() bool {
	return slices.ContainsFunc(d.Parts, func(p Part) bool { return len(p.Claims) > 0 })
}

// SharedText is "shared by 2 pods"; empty for a device that one has at most.
func SharedText(by int) string {
	if by < 2 {
		return ""
	}
	return "shared by " + plural.Count(by, "pod", "pods")
}

// SlotsText is "2 of 4 slots, 80G of 100G" of a NIC that is shared, and "held whole" of one
// of which a claim has all; empty for others.
func (d *Device) SlotsText() string {
	switch {
	case d.Slots == nil:
		return ""
	case d.HeldWhole:
		return heldWhole
	}
	text := fmt.Sprintf("%d of %s", d.Slots.Used, plural.Count(int(d.Slots.Of), "slot", "slots"))
	if d.Bandwidth != nil {
		text += fmt.Sprintf(", %s of %s", bitsPerSecond(d.Bandwidth.Used), bitsPerSecond(d.Bandwidth.Of))
	}
	return text + d.orWhole()
}

const heldWhole = "held whole"

// orWhole says that a claim could have the NIC whole in place of shares: while none has one.
func (d *Device) orWhole() string {
	if d.Twin == "" || len(d.Claims) > 0 {
		return ""
	}
	return ", or whole"
}

// UsedUpText is "no share left"; empty where there is one, and where all of it is one claim's.
func (d *Device) UsedUpText() string {
	if !d.UsedUp || d.HeldWhole {
		return ""
	}
	return "no share left"
}

// SlotsBrief is SlotsText where there is little room, such as "2/4 slots, 80G/100G".
func (d *Device) SlotsBrief() string {
	if d.HeldWhole {
		return heldWhole
	}
	text := fmt.Sprintf("%d/%s", d.Slots.Used, plural.Count(int(d.Slots.Of), "slot", "slots"))
	if d.Bandwidth != nil {
		text += fmt.Sprintf(", %s/%s", bitsPerSecond(d.Bandwidth.Used), bitsPerSecond(d.Bandwidth.Of))
	}
	return text + d.orWhole()
}

// bitsPerSecond is as a HostPolicy writes it, such as 100G.
func bitsPerSecond(n int64) string {
	for _, unit := range []struct {
		name string
		of   int64
	}{{"T", 1e12}, {"G", 1e9}, {"M", 1e6}} {
		if n >= unit.of {
			return strconv.FormatFloat(float64(n)/float64(unit.of), 'f', -1, 64) + unit.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// Label is what a part is called in pictures: its profile, or else its name.
func (p *Part) Label() string { return cmp.Or(p.Profile, p.Name) }

// Form says what kind of a part it is; empty where its profile or its name alone tells.
func (p *Part) Form() string {
	switch {
	case p.VFIO && len(p.Claims) > 0:
		return "for a virtual machine"
	case p.VFIO:
		return "for virtual machines"
	}
	return ""
}

// PartsOnlyText says in which form alone a GPU is offered; empty for one that is offered as
// a whole.
func (d *Device) PartsOnlyText() string {
	switch {
	case d.Kind != KindGPU || d.Name != "" || d.Resource != "":
		return ""
	case len(d.Profiles) == 0 && len(d.Parts) > 0 && !slices.ContainsFunc(d.Parts, func(p Part) bool { return !p.VFIO }):
		return "for virtual machines only (VFIO)"
	}
	return "offered in parts only"
}

// PassthroughText is "bound to vfio-pci, for virtual machines"; empty for a device that is
// not.
func (d *Device) PassthroughText() string {
	if d.Passthrough == "" {
		return ""
	}
	return "bound to " + d.Passthrough + ", for virtual machines"
}

// sharers counts who has a device at once: pods, and claims without one. One is nobody
// to share with.
func (c *claims) sharers(holders []holderName) int {
	seen := map[holderName]bool{}
	for _, h := range holders {
		pods := c.pods[h]
		if len(pods) == 0 {
			seen[holderName{h.namespace, "\x00" + h.name, ""}] = true // no pod is called that
		}
		for _, pod := range pods {
			seen[holderName{h.namespace, pod, ""}] = true
		}
	}
	if len(seen) < 2 {
		return 0
	}
	return len(seen)
}
