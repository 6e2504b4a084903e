// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/golden"
	"plumbline.dev/plumbline/internal/machine/facts"
	"plumbline.dev/plumbline/lab/vm/pcie"
	"plumbline.dev/plumbline/lab/vm/shape"
)

func load(t *testing.T, name string) *shape.Shape {
	t.Helper()
	f, err := facts.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := shape.FromFacts(f)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestArgs shows the command line of every shipped machine, or why it has none.
func TestArgs(t *testing.T) {
	for _, name := range []string{
		"a3-ultragpu-8g", "aws-p4d.24xlarge", "azure-nd96isr-h100-v5", "egx-t4-cx5", "gcp-ct6e-standard-4t",
	} {
		t.Run(name, func(t *testing.T) {
			s := load(t, name)
			showArgs(t, s, name)
		})
	}
	t.Run("with virtual functions", func(t *testing.T) {
		s := load(t, "egx-t4-cx5")
		if err := s.AddSRIOV("sriov0"); err != nil {
			t.Fatal(err)
		}
		showArgs(t, s, "egx-t4-cx5-sriov")
	})
}

// showArgs compares a machine's command line, or why it has none, with what was reviewed.
func showArgs(t *testing.T, s *shape.Shape, name string) {
	t.Helper()
	layout, err := s.Scale(16, 20480)
	if err != nil {
		t.Fatal(err)
	}
	args, deviations, err := Args(Options{
		Name: "node", Shape: s, Layout: layout, Kernel: "/k/vmlinux", Initrd: "/k/initramfs.cpio", Cmdline: "console=ttyS0",
		Console: "/vm/console.log", Control: "/vm/qmp.sock", Shell: "/vm/shell.sock",
		Forwards: []Forward{{Host: 33333, Guest: 10250}},
		Logs:     []Port{{"log.kubelet", "/vm/a,b/kubelet.log"}}, Sockets: []Port{{"control", "/vm/control.sock"}},
	})
	got := oneOptionALine(args, deviations)
	var refusal *pcie.Refusal
	if errors.As(err, &refusal) {
		got = refusal.Error() + "\n"
	} else if err != nil {
		t.Fatal(err)
	}
	golden.Assert(t, filepath.Join("testdata", name+".txt"), got)
}

// oneOptionALine writes a command line for a reviewer, the deviations first.
func oneOptionALine(args, deviations []string) string {
	var b strings.Builder
	for _, line := range deviations {
		b.WriteString("# " + line + "\n")
	}
	for i, arg := range args {
		if i > 0 && strings.HasPrefix(arg, "-") {
			b.WriteString("\n")
		} else if i > 0 {
			b.WriteString(" ")
		}
		b.WriteString(arg)
	}
	return b.String() + "\n"
}
