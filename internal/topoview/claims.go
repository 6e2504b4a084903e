// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package topoview

import (
	"cmp"
	"slices"
	"strconv"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// holderName is a holder's identity in the cluster at one moment: a claim, or with an
// extended resource the pod that has it.
type holderName struct{ namespace, name, resource string }

func compareHolders(a, b holderName) int {
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name), cmp.Compare(a.resource, b.resource))
}

// claims gives each holder its key.
type claims struct {
	byDevice map[DeviceID][]Holder
	// plugged are the pods that have a function of a device plugin.
	plugged map[model.PCIAddress][]holderName
	keys    map[holderName]string
	pods    map[holderName][]string
	order   []holderName
}

func newClaims(byDevice map[DeviceID][]Holder, plugins []PluginDevice) *claims {
	c := &claims{
		byDevice: byDevice, plugged: map[model.PCIAddress][]holderName{}, keys: map[holderName]string{}, pods: map[holderName][]string{},
	}
	add := func(name holderName, pods ...string) {
		if _, seen := c.pods[name]; !seen {
			c.order = append(c.order, name)
		}
		c.pods[name] = append(c.pods[name], pods...)
	}
	for _, holders := range byDevice {
		for _, h := range holders {
			add(holderName{h.Namespace, h.Claim, ""}, h.Pods...)
		}
	}
	for _, p := range plugins {
		name := holderName{p.Namespace, p.Pod, p.Resource}
		if p.Pod == "" {
			continue
		}
		add(name, p.Pod)
		if !slices.Contains(c.plugged[p.PCI], name) {
			c.plugged[p.PCI] = append(c.plugged[p.PCI], name)
		}
	}
	slices.SortFunc(c.order, compareHolders)
	for i, name := range c.order {
		c.keys[name] = key(i)
		slices.Sort(c.pods[name])
		c.pods[name] = slices.Compact(c.pods[name])
	}
	return c
}

// key is A to Z, then A2 to Z2 and so on.
func key(i int) string {
	letter := string(rune('A' + i%26))
	if i < 26 {
		return letter
	}
	return letter + strconv.Itoa(i/26+1)
}

func (c *claims) key(h Holder) string { return c.keys[holderName{h.Namespace, h.Claim, ""}] }

// holders lists who holds a device, in the order of the keys.
func (c *claims) holders(id DeviceID) []Holder {
	list := slices.Clone(c.byDevice[id])
	slices.SortStableFunc(list, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Claim, b.Claim))
	})
	return list
}

// of are the names of the claims that hold a device.
func (c *claims) of(id DeviceID) []holderName {
	var names []holderName
	for _, h := range c.byDevice[id] {
		names = append(names, holderName{h.Namespace, h.Claim, ""})
	}
	return names
}

// keysOf lists the keys of the claims that hold a device, each once.
func (c *claims) keysOf(id DeviceID) []string {
	var keys []string
	for _, h := range c.holders(id) {
		keys = append(keys, c.key(h))
	}
	return slices.Compact(keys)
}

// driverRank lists GPUs before NICs before CPUs. A driver that is not
// known by its name has most often NICs.
func driverRank(driver string) int {
	kinds := []slicecodec.Kind{slicecodec.KindGPU, slicecodec.KindAccelerator, slicecodec.KindNIC, "", slicecodec.KindCPU}
	return slices.Index(kinds, slicecodec.KindOfDriver(driver))
}

// list is the legend: every holder with its GPUs, NICs and CPUs, each in the
// machine's order. A held device that the machine does not show is listed last,
// by name.
func (c *claims) list(t *Topology, groups []slicecodec.CPUGroup) []Claim {
	rank := map[DeviceID]int{}
	for _, g := range groups {
		rank[DeviceID{slicecodec.DriverCPU, g.Device}] = len(rank) + 1
	}
	t.eachNode(func(n *Node) {
		n.eachDevice(func(d *Device) {
			rank[d.id()] = len(rank) + 1
			if d.Twin != "" {
				rank[DeviceID{d.Driver, d.Twin}] = len(rank) + 1
			}
			for _, p := range d.Parts {
				rank[DeviceID{p.Driver, p.Name}] = len(rank) + 1
			}
		})
	})
	held := map[holderName][]DeviceID{}
	for id, holders := range c.byDevice {
		for _, h := range holders {
			name := holderName{h.Namespace, h.Claim, ""}
			held[name] = append(held[name], id)
		}
	}
	c.addPlugged(t, held)
	var list []Claim
	for _, name := range c.order {
		ids := held[name]
		slices.SortFunc(ids, func(a, b DeviceID) int {
			ra, rb := rank[a], rank[b]
			if ra == 0 || rb == 0 {
				return cmp.Or(cmp.Compare(rb, ra), cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.Name, b.Name))
			}
			return cmp.Or(cmp.Compare(driverRank(a.Driver), driverRank(b.Driver)), cmp.Compare(ra, rb))
		})
		claim := Claim{Key: c.keys[name], Namespace: name.namespace, Name: name.name, Resource: name.resource, Pods: c.pods[name], Devices: []string{}}
		for _, id := range slices.Compact(ids) {
			claim.Devices = append(claim.Devices, id.Name)
		}
		list = append(list, claim)
	}
	return list
}
