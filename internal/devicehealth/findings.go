// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package devicehealth

import (
	"fmt"

	"plumbline.dev/plumbline/internal/model"
)

// carrier finds whether a link has its other end. A link that is set down is an
// administrator's decision; one whose operstate is "unknown" never becomes "down"
// (Documentation/networking/operstates.rst).
func (f findings) carrier(up bool, state string) {
	f[model.FaultCarrier] = nil
	if up && (state == "down" || state == "lowerlayerdown") {
		message := "the link is set up and has no carrier"
		f[model.FaultCarrier] = &message
	}
}

// speed finds whether a link is slower than it was. A link without carrier has
// no speed, and that is another fault.
func (f findings) speed(mbits, usual int) {
	f[model.FaultSpeed] = nil
	if mbits < usual {
		message := fmt.Sprintf("the link runs at %d Mbit/s, usually at %d Mbit/s", mbits, usual)
		f[model.FaultSpeed] = &message
	}
}

func (f findings) gone(gone bool, message string) {
	f[model.FaultGone] = nil
	if gone {
		f[model.FaultGone] = &message
	}
}

// pcie finds whether a function's PCIe link has fewer lanes or a lower rate than
// both of its ends are made for: a device of sixteen lanes in a slot of eight is
// as it should be. A virtual function has no link but its physical function's.
//
// Both ends of a link report the same width and rate. Where they do not, the port
// is a virtual machine's and says nothing about the wire; nor is there anything
// to say without a port.
func (f findings) pcie(m *model.Machine, a model.PCIAddress) {
	function := m.Function(a)
	if function != nil && function.PhysicalFunction != nil {
		function = m.Function(*function.PhysicalFunction)
	}
	if function == nil || function.Link == nil || function.Parent == nil {
		return
	}
	port := m.Function(*function.Parent)
	if port == nil || port.Link == nil {
		return
	}
	own, other := *function.Link, *port.Link
	if own.Width != other.Width || own.SpeedMTs != other.SpeedMTs {
		return
	}
	width, rate := least(own.MaxWidth, other.MaxWidth), least(own.MaxSpeedMTs, other.MaxSpeedMTs)
	if own.Width == 0 || own.SpeedMTs == 0 || width == 0 || rate == 0 {
		return
	}
	f[model.FaultPCIe] = nil
	if own.Width < width || own.SpeedMTs < rate {
		message := fmt.Sprintf("PCIe function %s runs x%d at %s, made for x%d at %s",
			function.Address, own.Width, gigatransfers(own.SpeedMTs), width, gigatransfers(rate))
		f[model.FaultPCIe] = &message
	}
}

// least is the smaller one of two; zero, which is unknown, when either is.
func least(a, b int) int {
	if a == 0 || b == 0 {
		return 0
	}
	return min(a, b)
}

func gigatransfers(mts int) string { return fmt.Sprintf("%g GT/s", float64(mts)/1000) }
