// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// programName is what the kernel calls the program that pinProgram loads.
const programName = "lab_pass"

// pinProgram loads an eBPF program that lets every packet on, and pins it at
// path: a stand-in for what a CNI or a monitor attaches to a NIC. tc(8) can
// attach a program that is pinned; nothing else in the guest can make one.
func pinProgram(path string) error {
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: programName, Type: ebpf.SchedCLS, License: "Apache-2.0",
		// TC_ACT_UNSPEC: go on with the next filter (linux/pkt_cls.h).
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()},
	})
	if err != nil {
		return fmt.Errorf("load program: %w", err)
	}
	defer func() { _ = program.Close() }()
	return program.Pin(path)
}
