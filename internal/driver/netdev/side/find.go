// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package side

import (
	"fmt"

	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/model"
)

// Identity is what a link keeps wherever it goes and whatever it is called: PCI
// address and permanent MAC. A virtual link has neither, and is known by its
// MAC, also by the one that a configuration gave it.
type Identity struct {
	pci               *string
	permanentMAC, mac *string
	given, givenName  *string
	kind              *string
	port              *string
}

// IdentityOf is the identity of a NIC as the inventory knew it. givenMAC is the
// MAC that a configuration gives it, nil when it keeps its own.
func IdentityOf(nic model.NIC, givenMAC *string) Identity {
	id := Identity{port: nic.Port, given: givenMAC}
	if nic.PCI != nil {
		text := nic.PCI.String()
		id.pci = &text
	}
	if i := nic.Interface; i != nil {
		id.permanentMAC, id.mac, id.kind = i.PermanentMAC, i.MAC, i.Kind
	}
	return id
}

// Named is the identity on a side where only a link of that name can have the
// MAC that the configuration gives: another may have it as its own.
func (id Identity) Named(name string) Identity {
	id.givenName = &name
	return id
}

// Find returns the link with an identity, nil when there is none, and an error
// when several could be it.
func (id Identity) Find(links []rtnl.Link) (*rtnl.Link, error) {
	var found *rtnl.Link
	for i := range links {
		if !id.Matches(links[i]) {
			continue
		}
		if found != nil && id.given != nil && same(id.mac, found.MAC) != same(id.mac, links[i].MAC) {
			// Its own MAC is a better sign than the given one.
			if same(id.mac, links[i].MAC) {
				found = &links[i]
			}
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("interfaces %s and %s could both be %s", found.Name, links[i].Name, id)
		}
		found = &links[i]
	}
	return found, nil
}

// Matches tells whether a link is the NIC.
func (id Identity) Matches(l rtnl.Link) bool {
	onPCI := l.Bus != nil && *l.Bus == "pci"
	// Two functions may share a burned-in address (a VF and its representor).
	elsewhere := id.pci != nil && onPCI && !same(id.pci, l.BusAddress)
	if elsewhere || !same(id.kind, l.Kind) {
		return false
	}
	switch {
	case id.permanentMAC != nil && l.PermanentMAC != nil:
		// Also tells apart the interfaces of one function.
		return same(id.permanentMAC, l.PermanentMAC)
	case id.pci != nil && onPCI && id.port == nil:
		return true
	case id.permanentMAC == nil && id.mac != nil:
		// A virtual link has no burned-in address.
		return l.PermanentMAC == nil && l.MAC != nil && (*l.MAC == *id.mac || id.isGiven(l))
	}
	return false
}

func (id Identity) isGiven(l rtnl.Link) bool {
	return id.given != nil && *l.MAC == *id.given && (id.givenName == nil || *id.givenName == l.Name)
}

// String names the NIC.
func (id Identity) String() string {
	switch {
	case id.pci != nil:
		return "PCI function " + *id.pci
	case id.permanentMAC != nil:
		return "the NIC with permanent MAC " + *id.permanentMAC
	case id.mac != nil:
		return "the NIC with MAC " + *id.mac
	}
	return "a NIC without PCI address and MAC"
}

func same[T comparable](a, b *T) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}
