// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
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
	// FirstName is the name that it is made under where the host has a link of the name that it
	// is to have: one that neither the host nor the pod has.
	FirstName string `json:"firstName"`
	// Slots are how many of the NIC's the claim took.
	Slots int64 `json:"slots"`
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
	plan.Child.Alias = model.ShareAlias(string(p.claim.UID), a.Request, a.Device, string(*a.ShareID))
	_, id, _ := strings.Cut(plan.Child.Alias, "-")
	plan.Child.FirstName = "pl" + id[:12]
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
	if link.Alias == nil || *link.Alias != plan.Child.Alias { // a start before this one may have come so far
		if link, err = t.nameChild(plan, *link); err != nil {
			return nil, err
		}
	}
	if link.Up {
		return link, nil
	}
	return link, plan.Pod.Configure(t.pod, link, nil)
}

func (t *transaction) makeChild(plan Plan) (*rtnl.Link, error) {
	parent, err := t.parent(plan)
	if err != nil {
		return nil, err
	}
	t.moved = append(t.moved, plan)
	child, s := plan.Child, plan.Pod.Settings
	// The kernel looks for links of the new one's name on the host (net/core/rtnetlink.c,
	// rtnl_newlink), and takes as long to give it another later as for all else here: it waits
	// for everybody who may read the old one (net/core/dev.c, dev_change_name).
	name := plan.Pod.Name
	err = t.host.CreateChild(parent.Index, t.pod.Fd(), name, child.Child, s.MTU, s.MAC)
	if errors.Is(err, syscall.EEXIST) && name != child.FirstName {
		name = child.FirstName // the host has it, or the pod, which is told when it is named
		err = t.host.CreateChild(parent.Index, t.pod.Fd(), name, child.Child, s.MTU, s.MAC)
	}
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
	link, err := t.pod.LinkByName(name)
	if err == nil && link == nil {
		err = errors.New("it was made, but is not in the pod")
	}
	return link, err
}

// parent finds the NIC that a child is to stand on: under the name that it had when the claim
// was prepared, or else among all links, of which a host with many pods has hundreds.
func (t *transaction) parent(plan Plan) (*rtnl.Link, error) {
	id := plan.parent()
	if i := plan.NIC.Interface; i != nil {
		link, err := t.host.LinkByName(i.Name)
		if err != nil || link != nil && id.Matches(*link) && id.Certain(link) {
			return link, err
		}
	}
	link, err := t.host.Find(id)
	if err == nil && link == nil {
		err = fmt.Errorf("%s, which it is to stand on, is not on the host", id)
	}
	return link, err
}

// nameChild gives the link its name where it has another, and what a link can only be given
// once it is there.
func (t *transaction) nameChild(plan Plan, made rtnl.Link) (*rtnl.Link, error) {
	name := plan.Pod.Name
	change := rtnl.Change{Settings: plan.Pod.Settings}
	if made.Name != name {
		change.Name = &name
	}
	err := t.pod.Set(made.Index, change)
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
