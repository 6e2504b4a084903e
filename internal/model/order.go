// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"fmt"
)

// compareRoots orders roots by domain and bus: "pci0000:8c" before
// "pci0001:00". A name of another form sorts last, by text.
func compareRoots(a, b PCIRoot) int {
	ad, ab, aok := rootNumbers(a.Name)
	bd, bb, bok := rootNumbers(b.Name)
	switch {
	case aok && bok:
		return cmp.Or(cmp.Compare(ad, bd), cmp.Compare(ab, bb))
	case aok:
		return -1
	case bok:
		return 1
	}
	return cmp.Compare(a.Name, b.Name)
}

func rootNumbers(name string) (domain, bus uint32, ok bool) {
	n, err := fmt.Sscanf(name, "pci%x:%x", &domain, &bus)
	return domain, bus, err == nil && n == 2
}

// comparePCI orders devices root-major; those without an address come last.
func (m *Machine) comparePCI(a, b *PCIAddress) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return cmp.Or(cmp.Compare(m.rootRank(*a), m.rootRank(*b)), a.Compare(*b))
}

func (m *Machine) rootRank(a PCIAddress) int {
	f := m.Function(a)
	if f == nil {
		return len(m.Roots)
	}
	rank, ok := m.rootOrder[f.Root]
	if !ok {
		return len(m.Roots)
	}
	return rank
}

func (m *Machine) compareNICs(a, b NIC) int {
	return cmp.Or(
		m.comparePCI(a.PCI, b.PCI),
		cmp.Compare(text(a.Port), text(b.Port)),
		cmp.Compare(a.String(), b.String()),
	)
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
