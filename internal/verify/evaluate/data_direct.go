// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"fmt"
	"slices"
	"strings"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/verify/expect"
)

// underConstraint is what a constraint compares of a device, as far as the machine says
// it; why says what it is where that is the scheduler's to keep.
func (e *evaluator) underConstraint(claim expect.Claim, d *expect.Device, attribute string) (v valued, why string) {
	if expression, derived := claim.Derived[d.Request][attribute]; derived {
		var known bool
		if v, known = e.derived(claim.Name, d, expression); !known {
			why = d.Request + " derives it by an expression: the scheduler's to keep"
		}
		return v, why
	}
	if !fromKernel(attribute) {
		return v, "not a fact of the hardware: the scheduler's to keep"
	}
	return e.valueOf(claim.Name, d, attribute), ""
}

// derived is what an expression makes of a NIC that reads one attribute, of those which
// the machine has too: the root of its Data Direct function, and its GPU.
func (e *evaluator) derived(claim string, d *expect.Device, expression string) (v valued, known bool) {
	v.device = d
	attribute := readAlone(expression)
	if attribute != slicecodec.AttrDataDirectRoot && attribute != slicecodec.AttrPairedGPU {
		return v, false
	}
	n := e.nicOf(claim, d)
	switch {
	case n == nil:
	case attribute == slicecodec.AttrPairedGPU && n.PairedGPU != nil:
		v.values, v.by = []string{n.PairedGPU.String()}, " (its GPU)"
	case attribute == slicecodec.AttrDataDirectRoot && n.DataDirect != nil:
		if f := e.m.Function(*n.DataDirect); f != nil {
			v.values, v.by = []string{f.Root}, byDataDirect(n, e.m.Function(*n.PCI))
		}
	}
	return v, true
}

// readAlone is the attribute that an expression reads and does nothing else, "" of any
// other expression.
func readAlone(expression string) string {
	text := strings.Join(strings.Fields(expression), "")
	for _, name := range []string{slicecodec.AttrDataDirectRoot, slicecodec.AttrPairedGPU} {
		domain, bare, _ := strings.Cut(name, "/")
		if of := fmt.Sprintf("device.attributes[%q]", domain); text == of+"."+bare || text == fmt.Sprintf("%s[%q]", of, bare) {
			return name
		}
	}
	return ""
}

// nicOf is the NIC of the machine that a device is, nil where it is none.
func (e *evaluator) nicOf(claim string, d *expect.Device) *model.NIC {
	for _, p := range e.places[claim][d.Request] {
		if p.device != d || p.pci == nil {
			continue
		}
		for i := range e.m.NICs {
			if n := &e.m.NICs[i]; n.PCI != nil && *n.PCI == *p.pci {
				return n
			}
		}
	}
	return nil
}

// rootOf is the root by which claims compare a device: that of its function. Where its
// driver publishes another (drivers.net.dataDirectAsRoot), that one counts if the hardware
// says that it is the NIC's Data Direct function's.
func (e *evaluator) rootOf(d *expect.Device, f *model.PCIFunction) (roots []string, by string) {
	published, _ := d.Values(slicecodec.AttrPCIeRoot)
	if len(published) != 1 || published[0] == f.Root {
		return []string{f.Root}, ""
	}
	at := slices.IndexFunc(e.m.NICs, func(n model.NIC) bool { return n.PCI != nil && *n.PCI == f.Address && n.DataDirect != nil })
	if at < 0 {
		return []string{f.Root}, ""
	}
	direct := e.m.Function(*e.m.NICs[at].DataDirect)
	if direct == nil || direct.Root != published[0] {
		return []string{f.Root}, ""
	}
	return []string{direct.Root}, byDataDirect(&e.m.NICs[at], f)
}

// byDataDirect says where a NIC is that has the root of its Data Direct function.
func byDataDirect(n *model.NIC, own *model.PCIFunction) string {
	text := fmt.Sprintf(" (by its Data Direct function %s", n.DataDirect)
	if own != nil {
		text += "; the NIC itself is below " + own.Root
	}
	return text + ")"
}
