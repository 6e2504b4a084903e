// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Command guest-init is the first program of the lab's virtual machines.
// Called later in the guest, it loads an eBPF program for scenarios to attach, or keeps
// the RDMA devices of NICs that pods have.
package main

import (
	"context"
	"fmt"
	"os"

	"plumbline.dev/plumbline/lab/vm/guest"
	"plumbline.dev/plumbline/lab/vm/guest/boot"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "supervise" {
		_ = boot.Supervise(os.Stdout) // it returns only when it cannot go on, and has printed why
		os.Exit(1)
	}
	if len(os.Args) == 3 && os.Args[1] == "pin-program" {
		if err := pinProgram(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "guest-init: pin-program:", err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 2 && os.Args[1] == "keep-pods-rdma" {
		fmt.Fprintln(os.Stderr, "guest-init: keep-pods-rdma:", keepPodsRDMA(context.Background()))
		os.Exit(1) // the supervisor starts it again
	}
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "guest-init: runs as process 1 of a virtual machine only")
		os.Exit(2)
	}
	fmt.Printf("%s%s%v\n", guest.Mark, guest.Failed, boot.Init(os.Stdout))
	if err := boot.PowerOff(); err != nil {
		fmt.Printf("%spower off: %v\n", guest.Mark, err)
	}
}
