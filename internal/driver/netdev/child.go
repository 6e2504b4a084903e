// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev/hoststate"
	"plumbline.dev/plumbline/internal/driver/netdev/nslink"
	"plumbline.dev/plumbline/internal/driver/netdev/podstate"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// Child is the pod's own link on a NIC that is shared. It is made in the pod's namespace
// and ends with it: the host has nothing to restore.
type Child struct {
	rtnl.Child
	// Alias is the link's, by which it is found under whatever name.
	Alias string `json:"alias"`
	// FirstName is the name that it is made under: one that neither the host nor the
	// pod has.
	FirstName string `json:"firstName"`
	// Slots are how many of the NIC's the claim took.
	Slots int64 `json:"slots"`
}

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
func heldChildren(held []driver.Record, claim driver.Claim) ([]heldChild, error) {
	var all []heldChild
	for _, r := range held {
		if r.Claim.UID == claim.UID {
			continue
		}
		for _, d := range r.Devices {
			if d.ShareID == "" {
				continue
			}
			plan, err := readBrief(d)
			if err != nil {
				return nil, fmt.Errorf("held claim %s: %w", r.Claim, err)
			}
			if plan.Child != nil {
				all = append(all, childHeld(&plan, "claim "+r.Claim.String(), true))
			}
		}
	}
	return all, nil
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
	for _, r := range p.held {
		for _, d := range r.Devices {
			if isOf(d, nic) && d.ShareID == "" && !d.AdminAccess && r.Claim.UID != p.claim.UID {
				return driver.HeldError{Err: fmt.Errorf("claim %s holds it whole", r.Claim)}
			}
		}
	}
	return nil
}

// placeChild plans the link that the pod gets on a shared NIC.
func (p planner) placeChild(a driver.Allocation, c *v1alpha1.NetworkConfig, plan *Plan) error {
	if err := refuseOfParent(c).ToAggregate(); err != nil {
		return err
	}
	parent := p.facts.parents[a.Device]
	if parent.err != nil {
		return parent.err
	}
	child, err := childOf(c, plan.NIC.Share)
	if err != nil {
		return err
	}
	if err := parent.mayCarry(child, plan.NIC.Share); err != nil {
		return err
	}
	plan.Child = &Child{Child: child, Slots: slotsOf(a)}
	id := childID(p.claim.ClaimRef, a)
	plan.Child.Alias, plan.Child.FirstName = "plumbline-"+id, "pl"+id[:12]
	if plan.Pod, err = p.pod.stateOf(c, onParent(parent.link)); err != nil {
		return err
	}
	s := &plan.Pod.Settings
	if s.MTU != nil && parent.link.MTU != nil && *s.MTU > *parent.link.MTU {
		return fmt.Errorf("interface.mtu: %d: want at most %d, the MTU of interface %s that it stands on", *s.MTU, *parent.link.MTU, parent.link.Name)
	}
	if !parent.link.Up {
		return fmt.Errorf("interface %s is down: want it up, as by links[].up of a HostPolicy", parent.link.Name)
	}
	if s.MAC == nil && child.Kind == model.ShareMacvlan {
		s.MAC = new(stableMAC(id))
	}
	s.Alias = &plan.Child.Alias
	announce(plan.Pod)
	return errors.Join(p.slotsSuffice(plan), p.tagIsFree(plan), p.macIsFree(plan, parent), p.addressesAreFree(plan, parent))
}

func slotsOf(a driver.Allocation) int64 {
	if q, there := a.Consumed[slicecodec.CapacitySlots]; there {
		return q.Value()
	}
	return 1
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

// announce has the kernel tell the network of the addresses as the link comes up: another
// pod may have had them, with another hardware address, and neighbours would go on sending
// to that (net/ipv4/devinet.c, inetdev_event; net/ipv6/ndisc.c, ndisc_netdev_event).
func announce(s *podstate.State) {
	for _, a := range s.Addresses {
		key := "ipv4/conf/arp_notify"
		if a.Addr().Is6() {
			key = "ipv6/conf/ndisc_notify"
		}
		if _, said := s.Sysctls[key]; said {
			continue
		}
		if s.Sysctls == nil {
			s.Sysctls = map[string]string{}
		}
		s.Sysctls[key] = "1"
	}
}

// childOf is the kind of link that a configuration asks for, as far as the offer has it.
func childOf(c *v1alpha1.NetworkConfig, offer *model.Share) (rtnl.Child, error) {
	i := &c.Interface
	switch {
	case i.Type != nil && *i.Type != offer.Type:
		return rtnl.Child{}, fmt.Errorf("interface.type: %q: the NIC is shared as %s: want that, or leave it out", *i.Type, offer.Type)
	case i.VLANID != nil && offer.Type != model.ShareVLAN:
		return rtnl.Child{}, fmt.Errorf("interface.vlanID: %d: the NIC is shared as %s: leave it out", *i.VLANID, offer.Type)
	}
	switch offer.Type {
	case model.ShareMacvlan:
		return macvlanOf(i, offer)
	case model.ShareIPvlan:
		return ipvlanOf(i, offer)
	case model.ShareVLAN:
		return vlanOf(i, offer)
	}
	return rtnl.Child{}, fmt.Errorf("the NIC is shared as %q, which this build does not know", offer.Type)
}

func macvlanOf(i *v1alpha1.InterfaceConfig, offer *model.Share) (rtnl.Child, error) {
	child := rtnl.Child{Kind: offer.Type, Mode: cmp.Or(offer.Mode, "bridge")}
	if i.Mode != nil {
		child.Mode = *i.Mode
	}
	if child.Mode == "passthru" {
		return child, errors.New(`interface.mode: "passthru" has the NIC alone, and it is shared: want bridge, private or vepa`)
	}
	return child, nil
}

func ipvlanOf(i *v1alpha1.InterfaceConfig, offer *model.Share) (rtnl.Child, error) {
	child := rtnl.Child{Kind: offer.Type, Mode: cmp.Or(offer.Mode, "l2"), Flag: cmp.Or(offer.Flag, "bridge")}
	if i.Mode != nil && *i.Mode != child.Mode {
		return child, fmt.Errorf("interface.mode: %q: all ipvlans of a NIC have one mode, and this one's is %s: want that, or leave it out", *i.Mode, child.Mode)
	}
	if i.HardwareAddr != nil {
		return child, fmt.Errorf("interface.hardwareAddr: %s: an ipvlan has the address of its NIC: leave it out", *i.HardwareAddr)
	}
	return child, nil
}

func vlanOf(i *v1alpha1.InterfaceConfig, offer *model.Share) (rtnl.Child, error) {
	child := rtnl.Child{Kind: offer.Type}
	if i.Mode != nil {
		return child, fmt.Errorf("interface.mode: %q: a vlan has none: leave it out", *i.Mode)
	}
	if i.VLANID == nil {
		return child, fmt.Errorf("interface.vlanID: the NIC is shared as vlan: want type: vlan, and a tag of %d-%d", offer.FirstVLAN, offer.LastVLAN)
	}
	if tag := int(*i.VLANID); tag < offer.FirstVLAN || tag > offer.LastVLAN {
		return child, fmt.Errorf("interface.vlanID: %d: want one of %d-%d, which the NIC is shared with", tag, offer.FirstVLAN, offer.LastVLAN)
	}
	child.VLANID = uint16(*i.VLANID)
	return child, nil
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

// childID is the same for a claim's share of a device, whoever computes it.
func childID(claim driver.ClaimRef, a driver.Allocation) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%s/%s", claim.UID, a.Request, a.Device, *a.ShareID))
	return hex.EncodeToString(sum[:10])
}

// stableMAC is a locally administered address: the same as often as the link is made.
func stableMAC(id string) string {
	sum := sha256.Sum256([]byte("mac/" + id))
	sum[0] = sum[0]&^1 | 2
	return net.HardwareAddr(sum[:6]).String()
}

// onParent is what a link on another has before it is configured: no addresses and
// nothing that leads through it.
func onParent(parent *rtnl.Link) *hoststate.HostNIC {
	s := parent.Settings
	return &hoststate.HostNIC{State: hoststate.State{
		Name:     parent.Name,
		Settings: rtnl.Settings{MAC: s.MAC, GSOMax: s.GSOMax, GROMax: s.GROMax, GSOIPv4Max: s.GSOIPv4Max, GROIPv4Max: s.GROIPv4Max},
	}}
}

// attachChild makes the link, and configures it. One that is up is done.
func (t *transaction) attachChild(plan Plan) (*rtnl.Link, error) {
	link, err := plan.identity().Find(t.inPod)
	if err != nil {
		return nil, err
	}
	if link == nil {
		if link, err = t.makeChild(plan); err != nil {
			return nil, err
		}
	}
	if link.Name == plan.Child.FirstName { // a start before this one may have come so far
		if link, err = t.nameChild(plan, link.Index); err != nil {
			return nil, err
		}
	}
	if link.Up {
		return link, nil
	}
	return link, plan.Pod.Configure(t.pod, link, nil)
}

func (t *transaction) makeChild(plan Plan) (*rtnl.Link, error) {
	if t.onHost == nil {
		var err error
		if t.onHost, err = t.host.Links(); err != nil {
			return nil, err
		}
	}
	parent, err := plan.parent().Find(t.onHost)
	if err == nil && parent == nil {
		err = fmt.Errorf("%s, which it is to stand on, is not on the host", plan.parent())
	}
	if err != nil {
		return nil, err
	}
	t.moved = append(t.moved, plan)
	child, s := plan.Child, plan.Pod.Settings
	err = t.host.CreateChild(parent.Index, t.pod.Fd(), child.FirstName, child.Child, s.MTU, s.MAC)
	switch {
	case errors.Is(err, syscall.EBUSY):
		return nil, fmt.Errorf("interface %s carries links of another kind or mode, made by somebody else: remove them, or offer it as they are: %w", parent.Name, err)
	case errors.Is(err, syscall.EEXIST) && child.Kind == model.ShareVLAN:
		return nil, fmt.Errorf("interface.vlanID: %d: interface %s has a vlan of it already, made by somebody else: %w", child.VLANID, parent.Name, err)
	case errors.Is(err, unix.EOPNOTSUPP):
		return nil, fmt.Errorf("this node's kernel has no links of kind %s: want its module loaded: %w", child.Kind, err)
	case err != nil:
		return nil, err
	}
	link, err := t.pod.LinkByName(child.FirstName)
	if err == nil && link == nil {
		err = errors.New("it was made, but is not in the pod")
	}
	return link, err
}

// nameChild gives the link its name, and what a link can only be given once it is there.
func (t *transaction) nameChild(plan Plan, index int) (*rtnl.Link, error) {
	name := plan.Pod.Name
	err := t.pod.Set(index, rtnl.Change{Name: &name, Settings: plan.Pod.Settings})
	if errors.Is(err, syscall.EEXIST) {
		return nil, nameTaken(name, err)
	}
	if err != nil {
		return nil, err
	}
	link, err := t.pod.LinkByName(name)
	if err == nil && (link == nil || !plan.identity().Matches(*link)) {
		err = errors.New("it was named, but is not in the pod")
	}
	return link, err
}

// parent is how to find the NIC that a child stands on.
func (p Plan) parent() nslink.Identity { return nslink.IdentityOf(p.NIC, nil).Alone(p.Alone) }

// withOffer is a configuration over what the offer of a shared NIC says, which is the
// weakest layer: addresses of a pool, where no other layer says how the link is addressed.
func withOffer(c *v1alpha1.NetworkConfig, offer *model.Share) *v1alpha1.NetworkConfig {
	i := &c.Interface
	if offer == nil || offer.Pool == "" || i.IPAM != nil || i.DHCP != nil || i.Addressing != nil || len(i.Addresses) > 0 {
		return c
	}
	given := *c
	given.Interface.IPAM = &v1alpha1.IPAMConfig{Pool: &offer.Pool}
	return &given
}

// HeldShares are what a record has of NICs that are shared, and those that it has whole by
// their twins.
func HeldShares(r driver.Record) ([]model.HeldShare, error) {
	var held []model.HeldShare
	for _, d := range r.Devices {
		p, err := readBrief(d)
		if err != nil {
			return nil, fmt.Errorf("claim %s: %w", r.Claim, err)
		}
		switch {
		case p.Child != nil:
			held = append(held, model.HeldShare{NIC: p.NIC, Slots: p.Child.Slots})
		case !d.AdminAccess && d.Device == slicecodec.TwinName(p.NIC):
			held = append(held, model.HeldShare{NIC: p.NIC})
		}
	}
	return held, nil
}
