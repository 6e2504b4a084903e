// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "maps"

// MergeNetworkConfigs lays later layers over earlier ones, field by field. A
// list replaces the list below it, also when it is empty; features and flags
// merge by name. The layers stay as they are.
func MergeNetworkConfigs(layers ...*NetworkConfig) *NetworkConfig {
	out := &NetworkConfig{}
	for _, l := range layers {
		over(&out.Profile, l.Profile)
		out.Interface.merge(&l.Interface)
		overList(&out.Routes, l.Routes)
		overList(&out.Rules, l.Rules)
		overList(&out.Neighbors, l.Neighbors)
		if l.Ethtool != nil {
			e := overObject(&out.Ethtool)
			overMap(&e.Features, l.Ethtool.Features)
			overMap(&e.PrivateFlags, l.Ethtool.PrivateFlags)
		}
		if l.RDMA != nil {
			r := overObject(&out.RDMA)
			over(&r.UMAD, l.RDMA.UMAD)
			over(&r.ISSM, l.RDMA.ISSM)
		}
	}
	return out
}

func (c *InterfaceConfig) merge(l *InterfaceConfig) {
	over(&c.Name, l.Name)
	over(&c.Type, l.Type)
	over(&c.Mode, l.Mode)
	over(&c.VLANID, l.VLANID)
	over(&c.Addressing, l.Addressing)
	overList(&c.Addresses, l.Addresses)
	over(&c.DHCP, l.DHCP)
	if l.IPAM != nil {
		over(&overObject(&c.IPAM).Pool, l.IPAM.Pool)
	}
	over(&c.MTU, l.MTU)
	over(&c.HardwareAddr, l.HardwareAddr)
	over(&c.GSOMaxSize, l.GSOMaxSize)
	over(&c.GROMaxSize, l.GROMaxSize)
	over(&c.GSOIPv4MaxSize, l.GSOIPv4MaxSize)
	over(&c.GROIPv4MaxSize, l.GROIPv4MaxSize)
	over(&c.DisableEBPFPrograms, l.DisableEBPFPrograms)
	over(&c.Forwarding, l.Forwarding)
	over(&c.ARPIgnore, l.ARPIgnore)
	over(&c.ARPAnnounce, l.ARPAnnounce)
	if l.VRF != nil {
		v := overObject(&c.VRF)
		over(&v.Name, l.VRF.Name)
		over(&v.Table, l.VRF.Table)
	}
}

func over[T any](below **T, above *T) {
	if above != nil {
		*below = above
	}
}

func overList[T any](below *[]T, above []T) {
	if above != nil {
		*below = above
	}
}

func overMap(below *map[string]bool, above map[string]bool) {
	if above == nil {
		return
	}
	if *below == nil {
		*below = map[string]bool{}
	}
	maps.Copy(*below, above)
}

func overObject[T any](below **T) *T {
	if *below == nil {
		*below = new(T)
	}
	return *below
}
