// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package topoview

import (
	"cmp"
	"slices"
	"strconv"

	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// claimName is a claim's identity in the cluster at one moment.
type claimName struct{ namespace, name string }

// claims gives each claim its key.
type claims struct {
	byDevice map[DeviceID][]Holder
	keys     map[claimName]string
	pods     map[claimName][]string
	order    []claimName
}

func newClaims(byDevice map[DeviceID][]Holder) *claims {
	c := &claims{byDevice: byDevice, keys: map[claimName]string{}, pods: map[claimName][]string{}}
	for _, holders := range byDevice {
		for _, h := range holders {
			name := claimName{h.Namespace, h.Claim}
			if _, seen := c.pods[name]; !seen {
				c.order = append(c.order, name)
			}
			c.pods[name] = append(c.pods[name], h.Pods...)
		}
	}
	slices.SortFunc(c.order, func(a, b claimName) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
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

func (c *claims) key(h Holder) string { return c.keys[claimName{h.Namespace, h.Claim}] }

// holders lists who holds a device, in the order of the keys.
func (c *claims) holders(id DeviceID) []Holder {
	list := slices.Clone(c.byDevice[id])
	slices.SortStableFunc(list, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Claim, b.Claim))
	})
	return list
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

// list is the legend: every claim with its GPUs, NICs and CPUs, each in the
// machine's order. A held device that the machine does not show is listed last,
// by name.
func (c *claims) list(t *Topology, groups []slicecodec.CPUGroup) []Claim {
	rank := map[DeviceID]int{}
	for _, g := range groups {
		rank[DeviceID{slicecodec.DriverCPU, g.Device}] = len(rank) + 1
	}
	t.eachNode(func(n *Node) {
		n.eachDevice(func(d *Device) {
			rank[DeviceID{d.Driver, d.Name}] = len(rank) + 1
			for _, p := range d.Parts {
				rank[DeviceID{p.Driver, p.Name}] = len(rank) + 1
			}
		})
	})
	held := map[claimName][]DeviceID{}
	for id, holders := range c.byDevice {
		for _, h := range holders {
			name := claimName{h.Namespace, h.Claim}
			held[name] = append(held[name], id)
		}
	}
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
		claim := Claim{Key: c.keys[name], Namespace: name.namespace, Name: name.name, Pods: c.pods[name], Devices: []string{}}
		for _, id := range slices.Compact(ids) {
			claim.Devices = append(claim.Devices, id.Name)
		}
		list = append(list, claim)
	}
	return list
}
