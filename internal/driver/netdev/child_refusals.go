// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev/hoststate"
	"plumbline.dev/plumbline/internal/driver/netdev/nslink"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// parentFacts are a shared NIC's link on the host, or why it can carry no child.
type parentFacts struct {
	link *rtnl.Link
	// on are the host's own links that stand on it.
	on []rtnl.Link
	// addresses are the host's own on it.
	addresses []netip.Addr
	err       error
}

// readParent reads the link that children are to stand on.
func readParent(links []rtnl.Link, id nslink.Identity) parentFacts {
	link, err := id.Find(links)
	switch {
	case err != nil:
		return parentFacts{err: err}
	case link == nil:
		return parentFacts{err: fmt.Errorf("%s is not in the host's network namespace", id)}
	}
	on := slices.DeleteFunc(slices.Clone(links), func(l rtnl.Link) bool { return !slices.Contains(l.Lower, link.Index) })
	return parentFacts{link: link, on: on, err: hoststate.RefusePort(links, link)}
}

// heldChild is a link that a claim has on a shared NIC, or will have.
type heldChild struct {
	nic   string
	child *Child
	mac   *string
	// addresses are those that the pod is given on it.
	addresses []netip.Prefix
	// by is who has it; passes says that this may end before the claim does.
	by     string
	passes bool
}

func childHeld(plan *Plan, by string, passes bool) heldChild {
	h := heldChild{nic: slicecodec.NICName(plan.NIC), child: plan.Child, by: by, passes: passes}
	if plan.Pod != nil {
		h.mac, h.addresses = plan.Pod.Settings.MAC, plan.Pod.Addresses
	}
	return h
}

// refuse is why a claim cannot have something beside the holder.
func (h heldChild) refuse(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if h.passes {
		return driver.HeldError{Err: err}
	}
	return err
}

// heldChildren are the links on shared NICs that other claims have.
func heldChildren(held []heldDevice, claim driver.Claim) []heldChild {
	var all []heldChild
	for _, d := range held {
		if d.claim.UID != claim.UID && d.plan.Child != nil {
			all = append(all, childHeld(&d.plan, "claim "+d.claim.String(), true))
		}
	}
	return all
}

// mayShare refuses a share of a NIC that is not shared, or that somebody has whole.
func (p planner) mayShare(a driver.Allocation, nic *model.NIC) error {
	switch {
	case nic.Share == nil && nic.Withheld != nil:
		return fmt.Errorf("%s is not offered: it %s", nic, *nic.Withheld)
	case nic.Share == nil:
		return fmt.Errorf("share %s: %s is not shared any more: want a HostPolicy with links[].share for it", *a.ShareID, nic)
	case nic.Interface == nil:
		return fmt.Errorf("share %s: %s has no network interface to share", *a.ShareID, nic)
	}
	for _, d := range p.held {
		if isOf(d.DeviceRecord, nic) && d.ShareID == "" && !d.AdminAccess && d.claim.UID != p.claim.UID {
			return driver.HeldError{Err: fmt.Errorf("claim %s holds it whole", d.claim)}
		}
	}
	return nil
}

// rxHandlers are the kinds of which the kernel has one family on a link at a time, since
// each takes all of its packets (net/core/dev.c, netdev_rx_handler_register).
var rxHandlers = map[string]string{
	"macvlan": model.ShareMacvlan, "macvtap": model.ShareMacvlan, "ipvlan": model.ShareIPvlan, "ipvtap": model.ShareIPvlan,
}

// mayCarry refuses what the kernel would refuse as the link is made, or would do to links
// that the host itself has on the NIC.
func (f parentFacts) mayCarry(child rtnl.Child, offer *model.Share) error {
	family := rxHandlers[child.Kind]
	for _, l := range f.on {
		if l.Kind == nil {
			continue
		}
		other := rxHandlers[*l.Kind]
		switch c := l.Child; {
		case child.Kind == model.ShareVLAN:
			if c != nil && c.Kind == model.ShareVLAN && c.VLANID == child.VLANID {
				return fmt.Errorf("interface.vlanID: %d: interface %s has it on %s, made by somebody else: want another of %d-%d",
					child.VLANID, l.Name, f.link.Name, offer.FirstVLAN, offer.LastVLAN)
			}
		case other != "" && other != family:
			return fmt.Errorf("interface %s carries %s, of kind %s, made by somebody else, and the kernel has no %s beside it: remove it, or offer the NIC as %s",
				f.link.Name, l.Name, *l.Kind, child.Kind, other)
		case c != nil && c.Mode == "passthru":
			return fmt.Errorf("interface %s carries %s, a macvlan of mode passthru, which has it alone: remove that", f.link.Name, l.Name)
		case c != nil && c.Kind == model.ShareIPvlan && family == c.Kind && (c.Mode != child.Mode || c.Flag != child.Flag):
			// The kernel would have the host's follow (drivers/net/ipvlan/ipvlan_main.c,
			// ipvlan_link_new).
			return fmt.Errorf("interface %s carries %s, an ipvlan of mode %s %s, made by somebody else, and all of a link have one: remove it, or offer the NIC with that mode and flag, not %s %s",
				f.link.Name, l.Name, c.Mode, c.Flag, child.Mode, child.Flag)
		}
	}
	return nil
}

// slotsSuffice refuses more slots than the NIC is offered with: the offer may be smaller
// than it was as the claim was allocated.
func (p planner) slotsSuffice(plan *Plan) error {
	taken, passes := int64(0), false
	var by []string
	for _, h := range p.onNIC(plan) {
		taken += h.child.Slots
		by = append(by, h.by)
		passes = passes || h.passes
	}
	if want, offered := plan.Child.Slots, plan.NIC.Share.Slots; taken+want > offered {
		holder := heldChild{passes: passes}
		if len(by) == 0 {
			return holder.refuse("%s of %d: the claim takes %d: delete the claim, so that it is allocated anew", slicecodec.CapacitySlots, offered, want)
		}
		return holder.refuse("%s of %d: the claim takes %d, and %d are held, by %s: end one of them, or want more slots in links[].share of the HostPolicy",
			slicecodec.CapacitySlots, offered, want, taken, strings.Join(slices.Compact(by), ", "))
	}
	return nil
}

// onNIC are the links on the NIC of a plan that other claims have, and those that were
// planned for this claim before.
func (p planner) onNIC(plan *Plan) []heldChild {
	name := slicecodec.NICName(plan.NIC)
	return slices.DeleteFunc(slices.Clone(*p.children), func(h heldChild) bool { return h.nic != name })
}

// tagIsFree refuses a tag that is in use: a link has one vlan of each
// (net/8021q/vlan.c, vlan_check_real_dev).
func (p planner) tagIsFree(plan *Plan) error {
	if plan.Child.Kind != model.ShareVLAN {
		return nil
	}
	for _, h := range p.onNIC(plan) {
		if h.child.VLANID == plan.Child.VLANID {
			return h.refuse("interface.vlanID: %d: %s has it on this NIC: want another of %d-%d",
				plan.Child.VLANID, h.by, plan.NIC.Share.FirstVLAN, plan.NIC.Share.LastVLAN)
		}
	}
	return nil
}

// macIsFree refuses a hardware address that the NIC or another macvlan on it has, with which
// the kernel lets none come up (drivers/net/macvlan.c, macvlan_addr_busy).
func (p planner) macIsFree(plan *Plan, parent parentFacts) error {
	mac := plan.Pod.Settings.MAC
	if plan.Child.Kind != model.ShareMacvlan || mac == nil {
		return nil
	}
	for _, h := range p.onNIC(plan) {
		if h.mac != nil && *h.mac == *mac {
			return h.refuse("interface.hardwareAddr: %s: %s has it on this NIC: give each its own, or leave it out", *mac, h.by)
		}
	}
	for _, l := range append([]rtnl.Link{*parent.link}, parent.on...) {
		if l.MAC != nil && *l.MAC == *mac && (l.Index == parent.link.Index || l.Child != nil && l.Child.Kind == model.ShareMacvlan) {
			return fmt.Errorf("interface.hardwareAddr: %s: interface %s of the host has it: give each its own, or leave it out", *mac, l.Name)
		}
	}
	return nil
}

// addressesAreFree refuses an address that the NIC or another ipvlan on it has. The kernel
// finds the one that a packet is for by its address: it gives none to a second one
// (drivers/net/ipvlan/ipvlan_main.c, ipvlan_addr4_validator_event), and the host would hear
// nothing more at one of its own (ipvlan_core.c, ipvlan_addr_lookup).
func (p planner) addressesAreFree(plan *Plan, parent parentFacts) error {
	if plan.Child.Kind != model.ShareIPvlan {
		return nil
	}
	for _, a := range plan.Pod.Addresses {
		if slices.Contains(parent.addresses, a.Addr()) {
			return fmt.Errorf("interface.addresses: %s: interface %s of the host has it, and would hear nothing more: want another", a.Addr(), parent.link.Name)
		}
		for _, h := range p.onNIC(plan) {
			if slices.ContainsFunc(h.addresses, func(other netip.Prefix) bool { return other.Addr() == a.Addr() }) {
				return h.refuse("interface.addresses: %s: %s has it on this NIC, and ipvlans of one NIC are told apart by their addresses: give each its own", a.Addr(), h.by)
			}
		}
	}
	return nil
}
