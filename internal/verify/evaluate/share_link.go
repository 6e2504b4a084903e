// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"plumbline.dev/plumbline/internal/verify/collect"
	"plumbline.dev/plumbline/internal/verify/expect"
)

// linkOf finds the pod's own link on a shared NIC, by the alias that the driver gives it.
func (e *evaluator) linkOf(d *expect.Device) *collect.Interface {
	if d.Link == nil {
		return nil
	}
	for i := range e.observed.Network.Interfaces {
		if in := &e.observed.Network.Interfaces[i]; in.Link != nil && in.Link.Alias == d.Link.Alias {
			return in
		}
	}
	return nil
}

// link looks for the pod's own link on a shared NIC.
func (e *evaluator) link(claim *expect.Claim, d *expect.Device, f *Finding) {
	switch found := e.linkOf(d); {
	case e.expected.HostNetwork:
		f.State, f.Code, f.Why = StateUnknown, NotRead, "a pod in the host's network sees all interfaces"
	case e.observed.Network.Err != nil:
		f.State, f.Code, f.Why = StateUnknown, NotRead, "the pod's interfaces are not known"
	case found == nil:
		e.missingLink(d, f)
	default:
		e.compareLink(claim.Name, d, found, f)
		e.addresses(claim.Name, d)
	}
}

// missingLink flags a link that no interface of the pod is.
func (e *evaluator) missingLink(d *expect.Device, f *Finding) {
	var there []string
	for _, i := range e.observed.Network.Interfaces {
		if i.Link != nil || i.Above {
			there = append(there, i.Name)
		}
	}
	observed := "no such link"
	if len(there) > 0 {
		observed = "other links: " + strings.Join(there, ", ")
	}
	why := fmt.Sprintf("no interface of the pod has the alias %s, by which its %s on %s is known; there is %s: delete the pod, so that another gets it",
		d.Link.Alias, d.Link.Kind, parentWords(d), observed)
	f.wrong(DeviceMissing, why, Difference{Of: deviceWords(d), Attribute: "alias", Claimed: d.Link.Alias, Observed: observed})
}

func parentWords(d *expect.Device) string {
	if d.Link.Parent == nil {
		return d.Link.ParentName
	}
	return d.Link.Parent.String()
}

// compareLink wants a link to stand on the claimed NIC, and to be of its kind, with its tag
// and up. What the kernel does not tell is not compared.
func (e *evaluator) compareLink(claim string, d *expect.Device, found *collect.Interface, f *Finding) {
	is, want := found.Link, d.Link
	on, where := is.Parent, "on "+want.ParentName
	if want.Parent != nil {
		where = e.where(*want.Parent)
	}
	if found.PCI != nil {
		on = found.PCI.String()
	}
	switch {
	case on != "" && (want.Parent != nil && (found.PCI == nil || *found.PCI != *want.Parent) || want.Parent == nil && on != want.ParentName):
		f.wrong(DeviceMissing, fmt.Sprintf("%s stands on %s, and the claim has a share of %s", found.Name, on, parentWords(d)),
			Difference{Of: deviceWords(d), Attribute: "NIC below " + found.Name, Claimed: parentWords(d), Observed: on})
		return
	case is.Kind != "" && is.Kind != want.Kind:
		f.wrong(LinkWrong, fmt.Sprintf("%s is of kind %s, and the NIC is shared as %s", found.Name, is.Kind, want.Kind),
			Difference{Of: deviceWords(d), Attribute: "kind of " + found.Name, Claimed: want.Kind, Observed: is.Kind})
	case want.VLANID != 0 && is.VLANID != 0 && is.VLANID != want.VLANID:
		f.wrong(LinkWrong, fmt.Sprintf("%s has the tag %d, and the claim asks for %d", found.Name, is.VLANID, want.VLANID),
			Difference{Of: deviceWords(d), Attribute: "interface.vlanID", Claimed: fmt.Sprint(want.VLANID), Observed: fmt.Sprint(is.VLANID)})
	case !is.Up:
		f.wrong(LinkWrong, fmt.Sprintf("%s is down: somebody took it down; ip link set %s up", found.Name, found.Name),
			Difference{Of: deviceWords(d), Attribute: "state of " + found.Name, Claimed: "up", Observed: "down"})
	default:
		f.State, f.Why = StateOK, fmt.Sprintf("%s, %s %s", found.Name, want.Kind, where)
	}
	e.setPlace(claim, place{device: d, pci: want.Parent})
}

// addresses wants the addresses that the driver says it gave to a link to be the pod's: out
// of a pool nobody else is given them.
func (e *evaluator) addresses(claim string, d *expect.Device) {
	if len(d.Addresses) == 0 {
		return
	}
	f := Finding{Claim: claim, What: fmt.Sprintf("%s has its addresses", d.Request), placeless: true}
	has := e.observed.Network.Addresses
	lacking := slices.DeleteFunc(slices.Clone(d.Addresses), func(a netip.Addr) bool { return has[a] })
	switch {
	case e.observed.Network.AddressesErr != nil:
		f.State, f.Code, f.Why = StateUnknown, NotRead, e.observed.Network.AddressesErr.Error()
	case len(lacking) > 0:
		list := addressWords(lacking)
		f.wrong(AddressMissing, fmt.Sprintf("no interface of the pod has %s: somebody took it off; delete the pod", list),
			Difference{Of: deviceWords(d), Attribute: "addresses", Claimed: addressWords(d.Addresses), Observed: "not " + list})
	default:
		f.State, f.Why = StateOK, addressWords(d.Addresses)
	}
	e.add(f)
}

func addressWords(list []netip.Addr) string {
	words := make([]string, len(list))
	for i, a := range list {
		words[i] = a.String()
	}
	return strings.Join(words, ", ")
}
