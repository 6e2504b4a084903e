// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostpolicy

import (
	"fmt"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/internal/host/sriov"
	"plumbline.dev/plumbline/internal/model"
)

// function returns the PCI function of a link; nil where the scan has none.
func (p *planner) function(link Link) *model.PCIFunction {
	address, err := model.ParsePCIAddress(link.Function)
	if err != nil {
		return nil
	}
	return p.machine.Function(address)
}

// functionGone says whether the PCI function of a link is not on the host any more, and what
// was set there gone with it, as with a virtual one. That of a link that a pod has is there.
func (p *planner) functionGone(key string) bool {
	address, _, _ := strings.Cut(key, "/")
	a, err := model.ParsePCIAddress(address)
	return err == nil && len(p.machine.Functions) > 0 && p.machine.Function(a) == nil
}

// physical are those of the links of a driver that are not virtual functions, and one of
// each function.
func (p *planner) physical(links []Link) []Link {
	var found []Link
	for _, l := range links {
		if f := p.function(l); (f == nil || f.PhysicalFunction == nil) && !l.another() {
			found = append(found, l)
		}
	}
	return found
}

// another says whether a link is not the first of its PCI function.
func (l Link) another() bool { return l.Function != "" && l.Key != l.Function }

// cannotHave says why a link cannot have so many virtual functions.
func (p *planner) cannotHave(link Link, count string) string {
	f := p.function(link)
	switch {
	case f == nil || f.ClassByte() != model.PCIClassNetwork:
		return fmt.Sprintf("link %s is of no network controller on PCI", link.Name)
	case f.PhysicalFunction != nil:
		return fmt.Sprintf("link %s is a virtual function of %s", link.Name, f.PhysicalFunction)
	case f.SRIOV == nil:
		return fmt.Sprintf("link %s cannot have virtual functions: the sriov_totalvfs of %s is absent or 0", link.Name, f.Address)
	case link.another():
		return fmt.Sprintf("link %s is not the first of %s: want its virtual functions at that", link.Name, f.Address)
	}
	if n, err := strconv.Atoi(count); err != nil || n > f.SRIOV.TotalVFs {
		return fmt.Sprintf("%s is more than /sys/%s says, %d", count, sriov.TotalFile(f.Address), f.SRIOV.TotalVFs)
	}
	return ""
}

// waits says why a field of a link must not be changed yet: somebody uses one of its
// virtual functions, which another number of them takes away, and whose link goes down or
// is reset with the physical one's.
func (p *planner) waits(link Link, field, want string) string {
	f := p.function(link)
	disturbs := field == fieldNumVFs || field == fieldMTU || field == fieldUp && want != "true"
	if !disturbs || f == nil || f.SRIOV == nil {
		return ""
	}
	for i := range p.machine.NICs {
		n := &p.machine.NICs[i]
		if n.PCI == nil || n.Withheld == nil {
			continue
		}
		if vf := p.machine.Function(*n.PCI); vf != nil && vf.PhysicalFunction != nil && *vf.PhysicalFunction == f.Address {
			return fmt.Sprintf("virtual function %s is the node's: it %s", n.PCI, *n.Withheld)
		}
	}
	used, err := p.kernel.Used(link)
	if err != nil {
		return "who uses its virtual functions is unknown: " + err.Error()
	}
	return used
}
