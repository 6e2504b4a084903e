// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package pcie

import (
	"fmt"

	"plumbline.dev/plumbline/lab/vm/shape"
)

// Refusal says that QEMU cannot build a machine, for which device, and what
// can be done instead.
type Refusal struct {
	// Machine is the machine's name.
	Machine string
	// What is the device or root in question; empty for the machine itself.
	What string
	// Why is the reason, a clause without a full stop.
	Why string
}

// Error implements error.
func (r *Refusal) Error() string {
	what := r.Machine
	if r.What != "" {
		what += ": " + r.What
	}
	return fmt.Sprintf("%s cannot be a virtual machine: %s; it can still publish its devices as a simulated node (--simulate %s=1)",
		what, r.Why, r.Machine)
}

// buildable refuses what no arrangement of bridges can give.
func buildable(s *shape.Shape) error {
	refuse := func(what, why string, args ...any) error {
		return &Refusal{Machine: s.Name, What: what, Why: fmt.Sprintf(why, args...)}
	}
	if s.Arch != "x86_64" {
		return refuse("", "its processors are %s, and the lab's guest kernel and programs are built for x86_64", s.Arch)
	}
	for _, d := range s.Devices {
		switch {
		case d.BelowVMBus:
			return refuse(d.String(), "its root %s lies below a Hyper-V bus (VMBUS), which QEMU's q35 does not have", d.Root)
		case d.Address.Domain != 0:
			return refuse(d.String(), "PCI domain %04x: QEMU's q35 has domain 0000 alone", d.Address.Domain)
		case d.Root == "":
			return refuse(d.String(), "the machine file names no PCIe root for it")
		}
	}
	for _, r := range s.Roots {
		if r.Domain != 0 {
			return refuse("root "+r.Name(), "PCI domain %04x: QEMU's q35 has domain 0000 alone", r.Domain)
		}
	}
	if len(s.Roots) == 0 {
		return refuse("", "the machine file lists no PCIe root")
	}
	return nil
}
