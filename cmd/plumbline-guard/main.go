// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Command plumbline-guard is a createRuntime hook of the OCI runtime: it keeps a
// container from starting without the devices that its claims gave it. What it
// does is in package guard; nothing else happens here.
//
// It is built without cgo, so that it runs on any host.
package main

import (
	"context"
	"fmt"
	"os"

	"plumbline.dev/plumbline/internal/guard"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == guard.SelfTest {
		fmt.Println(guard.Works)
		return
	}
	options := guard.Options{ProcRoot: "/proc", Proc: os.DirFS("/proc"), Wait: guard.WaitAtMost}
	if err := guard.Run(context.Background(), os.Args[1:], os.Stdin, options); err != nil {
		fmt.Fprintln(os.Stderr, "plumbline-guard:", err)
		os.Exit(1)
	}
}
