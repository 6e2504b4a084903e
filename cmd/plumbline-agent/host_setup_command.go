// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/internal/agent"
	"plumbline.dev/plumbline/internal/host/procfs"
	"plumbline.dev/plumbline/internal/hostsetup"
)

// newHostSetupCommand does what agents ask for and may not do.
func newHostSetupCommand() *cobra.Command {
	stateDir := agent.DefaultOptions().StateDir
	s := hostsetup.Server{Host: hostsetup.Host{Sys: "/sys", ProcSys: "/proc/sys"}, Root: "/"}
	cmd := &cobra.Command{
		Use:   "host-setup",
		Short: "Make the changes of this host that its agent asks for and may not make",
		Long: `host-setup makes the changes of this host that its agent asks for by a file of the
state directory, and answers by another: kernel modules and settings of the whole kernel
from allow lists, and registers and virtual functions of PCI functions, as HostPolicies want
them. It needs
CAP_SYS_MODULE, CAP_SYS_ADMIN and CAP_SYS_CHROOT, and talks to nobody.`,
		Example: `  # what the chart runs on nodes that have something to do, where hostSetup.enabled is true
  plumbline-agent host-setup --root=/host`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if s.BootID, err = procfs.BootID(os.DirFS("/proc")); err != nil {
				return err
			}
			s.Dir = filepath.Join(stateDir, hostsetup.Folder)
			return s.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&stateDir, "state-dir", stateDir, "the agent's --state-dir")
	f.StringVar(&s.Host.Sys, "sysfs-root", s.Host.Sys, "the host's /sys, writable")
	f.StringVar(&s.Host.ProcSys, "proc-sys", s.Host.ProcSys, "the host's /proc/sys, writable")
	f.StringVar(&s.Root, "root", s.Root, "the host's file system, whose modprobe loads modules")
	return cmd
}
