// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"slices"

	"plumbline.dev/plumbline/internal/host/sysfs"
	"plumbline.dev/plumbline/internal/model"
)

// merged is an interface as sysfs and netlink together tell it. Netlink wins:
// it answers for one moment, the files for several.
func merged(d sysfs.NetDevice, a sysfs.NetAttributes, l LinkFacts) model.Interface {
	return model.Interface{
		Name:          d.Name,
		Index:         cmp.Or(l.Index, orZero(a.Index)),
		MAC:           cmp.Or(l.MAC, a.MAC),
		PermanentMAC:  l.PermanentMAC,
		MTU:           cmp.Or(l.MTU, a.MTU),
		Up:            l.Up,
		State:         cmp.Or(l.State, a.State),
		Encapsulation: cmp.Or(l.Encapsulation, encapsulation(a.Type)),
		Kind:          l.Kind,
		Alias:         cmp.Or(l.Alias, a.Alias),
		Virtual:       d.Virtual,
		SpeedMbps:     a.SpeedMbps,
		Addresses:     slices.Clone(l.Addresses),
	}
}

// encapsulation is the word for an ARPHRD number, as ip(8) prints it
// (include/uapi/linux/if_arp.h); nil for the many that no NIC has.
func encapsulation(arphrd *int) *string {
	if arphrd == nil {
		return nil
	}
	words := map[int]string{1: "ether", 32: "infiniband", 772: "loopback", 65534: "none"}
	word, ok := words[*arphrd]
	if !ok {
		return nil
	}
	return &word
}

func isLoopback(i model.Interface) bool {
	return i.Encapsulation != nil && *i.Encapsulation == "loopback" || i.Encapsulation == nil && i.Name == "lo"
}

func byName(links []LinkFacts) map[string]LinkFacts {
	m := make(map[string]LinkFacts, len(links))
	for _, l := range links {
		m[l.Name] = l
	}
	return m
}
