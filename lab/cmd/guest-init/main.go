// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Command guest-init is the first program of the lab's virtual machines.
package main

import (
	"fmt"
	"os"

	"plumbline.dev/plumbline/lab/vm/guest"
	"plumbline.dev/plumbline/lab/vm/guest/boot"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "supervise" {
		_ = boot.Supervise(os.Stdout) // it returns only when it cannot go on, and has told why
		os.Exit(1)
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
