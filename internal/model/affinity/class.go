// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package affinity

// Class is how far apart two places are, the nearest first. The names are those of
// nvidia-smi topo -m.
type Class int

// The classes. SameRoot is not nvidia-smi's: ResourceSlices have a device's root but not
// the bridges, so that it may be PIX, PXB or PHB. Unknown comes last: it is never near
// enough.
const (
	Self Class = iota + 1
	PIX
	PXB
	PHB
	SameRoot
	NODE
	SYS
	Unknown
)

// Classes lists all classes, the nearest first.
func Classes() []Class { return []Class{Self, PIX, PXB, PHB, SameRoot, NODE, SYS, Unknown} }

// String is the class as the matrix shows it.
func (c Class) String() string {
	switch c {
	case Self:
		return "X"
	case PIX:
		return "PIX"
	case PXB:
		return "PXB"
	case PHB:
		return "PHB"
	case SameRoot:
		return "ROOT"
	case NODE:
		return "NODE"
	case SYS:
		return "SYS"
	}
	return "?"
}

// Meaning is the class in words, for a legend.
func (c Class) Meaning() string {
	switch c {
	case Self:
		return "the same device"
	case PIX:
		return "through one PCIe switch or bridge at most"
	case PXB:
		return "through several PCIe bridges, not through a host bridge"
	case PHB:
		return "through the PCIe host bridge that both hang from"
	case SameRoot:
		return "below one PCIe root; the bridges between are not published, so PIX, PXB or PHB"
	case NODE:
		return "between host bridges, or CPUs and memory, of one NUMA node"
	case SYS:
		return "across the link between NUMA nodes"
	}
	return "not known: the NUMA node of one of them is not told"
}

// SharesRoot says whether the two hang from one PCIe root.
func (c Class) SharesRoot() bool { return c >= Self && c <= SameRoot }

// SharesNode says whether the two are known to be on one NUMA node. A root
// belongs to one node.
func (c Class) SharesNode() bool { return c >= Self && c <= NODE }
