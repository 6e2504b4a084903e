// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/lab/cache"
	"plumbline.dev/plumbline/lab/cluster"
	"plumbline.dev/plumbline/lab/guesttest"
	"plumbline.dev/plumbline/lab/progress"
	"plumbline.dev/plumbline/lab/vm"
	"plumbline.dev/plumbline/lab/vm/qemu"
	"plumbline.dev/plumbline/lab/vm/shape"
)

func newGuestTest(g *global) *cobra.Command {
	var run, machineName, kind string
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "guest-test [PACKAGE...]",
		Short: "Run Go tests of plumbline as root in a virtual machine",
		Long: `guest-test builds the tests of the named packages, boots a virtual machine that
runs nothing else, and runs them there as root: on a kernel with every link type,
and with PCI NICs that a test may move and lose. Every skip is printed with its
reason. Without a package it runs those that need such a machine; with --guest rdma,
those that need RDMA in network namespaces or a NIC with virtual functions. Where that guest's parts cannot be had, it
says why and that is all, but fails in CI.`,
		Example: `  plumblab guest-test
  plumblab guest-test --guest rdma
  plumblab guest-test --run TestPhysicalNIC ./internal/driver/netdev`,
		RunE: func(cmd *cobra.Command, packages []string) error {
			if len(packages) == 0 {
				packages = guesttest.Default
				if kind == cluster.GuestRDMA {
					packages, run = guesttest.RDMA, cmp.Or(run, guesttest.RDMATests)
				}
			}
			r, unlock, err := g.guestTest(cmd, machineName, kind)
			if why := skipped(err, os.Getenv("CI")); why != "" {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), why)
				return err
			}
			if err != nil {
				return err
			}
			defer unlock()
			r.Limit = limit
			if run != "" {
				r.Args = []string{"-test.run=" + run}
			}
			return r.Run(cmd.Context(), packages)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&run, "run", "", "run only the tests that match this `PATTERN`, as go test -run")
	flags.StringVar(&machineName, "machine", "egx-t4-cx5", "the hardware: a shipped machine's `NAME|FILE` of a machine file")
	guestFlag(cmd, &kind, cluster.GuestUsual)
	flags.DurationVar(&limit, "timeout", 20*time.Minute, "how long one package may take")
	return cmd
}

// skipped is what is said of tests whose guest's parts, a newer kernel and QEMU 8, cannot be
// had. It is empty where they can, and in CI, where that is a failure.
func skipped(err error, ci string) string {
	if ci != "" || !errors.Is(err, cluster.ErrNoRDMA) {
		return ""
	}
	return fmt.Sprintf("guest-test: skipped: %v", err)
}

// Sizes of the guest: little to bring up, and room for the test binaries.
const (
	guestTestCPUs      = 4
	guestTestMemoryMiB = 2048
)

// guestTest returns what runs tests. One run at a time uses its folder: unlock
// ends this one's turn.
func (g *global) guestTest(cmd *cobra.Command, machineName, kind string) (r guesttest.Runner, unlock func(), err error) {
	if err := cluster.CheckGuest(kind); err != nil {
		return r, nil, err
	}
	facts, err := machine.OpenFacts(machineName)
	if err != nil {
		return r, nil, err
	}
	hardware, err := shape.FromFacts(facts)
	if err != nil {
		return r, nil, err
	}
	if r.Source, err = g.checkout(); err != nil {
		return r, nil, err
	}
	c, err := cache.Open(g.cache)
	if err != nil {
		return r, nil, err
	}
	r.Progress = progress.New(cmd.ErrOrStderr(), isTerminal(os.Stderr), time.Now)
	builder, err := cluster.NewArtifactBuilder(cmd.Context(), c, r.Progress, r.Source)
	if err != nil {
		return r, nil, err
	}
	parts, err := builder.Guest(cmd.Context(), kind)
	if err != nil {
		return r, nil, err
	}
	r.Tools, r.RDMATools = parts.HostTools, parts.RDMATools
	r.Dir, r.Out = c.Path("guest-test"), cmd.OutOrStdout()
	if kind == cluster.GuestRDMA {
		r.Dir += "-" + kind
		if err := hardware.AddSRIOV(guesttest.SRIOVInterface); err != nil {
			return r, nil, err
		}
	}
	if ci := os.Getenv("CI"); ci != "" {
		r.Variables = []string{"CI=" + ci}
	}
	r.VM = vm.Config{
		Name: "guest-test", Dir: r.Dir, Shape: hardware, CPUs: guestTestCPUs, MemoryMiB: guestTestMemoryMiB,
		QEMU:   qemu.Program{Path: parts.QEMU.Path, Args: parts.QEMU.Args, Env: parts.QEMU.Env},
		Kernel: parts.Kernel, ModulesDir: parts.Modules,
		Init: parts.GuestInit, Busybox: parts.Busybox, Applets: parts.Applets,
	}
	if unlock, err = cache.Lock(cmd.Context(), r.Dir+".lock"); err != nil {
		return r, nil, err
	}
	// The machine of a run that was killed.
	if err = vm.Open(r.MachineDir()).Stop(cmd.Context()); err == nil {
		r.VM.KVM, _, err = vm.KVM(cmd.Context(), r.VM, c.Path(cluster.KVMFile(kind)))
	}
	if err != nil {
		unlock()
		return r, nil, err
	}
	return r, unlock, nil
}
