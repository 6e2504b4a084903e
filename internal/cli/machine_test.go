// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/machine"
)

// runMachine runs plumbline machine ARGS and returns what it prints.
func runMachine(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := NewMachineCommand()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	var out, errOut bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&errOut)
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(context.Background())
	return out.String(), errOut.String(), err
}

func TestMachineSlicesGolden(t *testing.T) {
	for _, name := range machine.Names() {
		t.Run(name, func(t *testing.T) {
			got, stderr, err := runMachine(t, "slices", name)
			if err != nil || stderr != "" {
				t.Fatalf("%v, stderr %q", err, stderr)
			}
			golden(t, filepath.Join("slices", name+".yaml"), got)
		})
	}
}

// TestRecordedMachineHasTheSameSlices goes the way of a user who sends a file:
// render, record the rendering, and look at the recording's slices.
func TestRecordedMachineHasTheSameSlices(t *testing.T) {
	dir := t.TempDir()
	tree, file := filepath.Join(dir, "tree"), filepath.Join(dir, "recording")
	for _, args := range [][]string{
		{"render", "egx-t4-cx5", "-o", tree},
		{"record", "--sysfs-root", tree, "--name", "egx-t4-cx5", "--with-mac", "-o", file},
		{"render", file, "-o", filepath.Join(dir, "again")},
	} {
		if _, stderr, err := runMachine(t, args...); err != nil || stderr != "" {
			t.Fatalf("%v: %v, stderr %q", args, err, stderr)
		}
	}
	fromFacts, _, err := runMachine(t, "slices", "egx-t4-cx5")
	if err != nil {
		t.Fatal(err)
	}
	fromRecording, _, err := runMachine(t, "slices", file)
	if err != nil {
		t.Fatal(err)
	}
	withoutGPUs := ""
	for slice := range strings.SplitSeq(strings.TrimPrefix(fromFacts, "---\n"), "---\n") {
		if !strings.Contains(slice, "driver: gpu.nvidia.com") {
			withoutGPUs += "---\n" + slice
		}
	}
	if diff := cmp.Diff(withoutGPUs, fromRecording); diff != "" {
		t.Error(diff)
	}
}

func TestMachineRefusals(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("name: m\narch: x86_64\ncolour: red\nnuma: [{id: 0, cpus: \"0\"}]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "mine"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ args, want string }{
		{"slices", "want one machine"},
		{"slices no-such-machine", "no shipped machine of that name (there are a3-ultragpu-8g"},
		{"slices " + bad, bad + ":3: colour: is no field of a facts file"},
		{"slices a3-ultragpu-8g --node-name Not_A_Node", `--node-name "Not_A_Node"`},
		{"render a3-ultragpu-8g", "want -o DIR"},
		{"render a3-ultragpu-8g -o " + full, "want an empty directory or none, it holds mine"},
		{"record --sysfs-root " + full, "want a directory like /sys"},
		{"list now", "unexpected argument"},
		{"read-nccl-topo", "want one topology file, got 0"},
		{"read-nccl-topo " + bad, bad + ": line 5: "},
		{"read-nccl-topo " + bad + " -o svg", `output format "svg"`},
		{"read-nccl-topo no-such.xml", "read topology file: open no-such.xml"},
	} {
		stdout, _, err := runMachine(t, strings.Fields(tt.args)...)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s", tt.args, err, tt.want)
		}
		if stdout != "" {
			t.Errorf("%s: printed %q", tt.args, stdout)
		}
	}
}

func TestMachineList(t *testing.T) {
	out, _, err := runMachine(t, "list")
	if err != nil || !strings.Contains(out, "8 x NVIDIA H200") || len(strings.Split(out, "\n")) != len(machine.Names())+2 {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestReadNCCLTopo reads the file that would be made of a whole machine of Azure.
func TestReadNCCLTopo(t *testing.T) {
	const file = "../nccltopo/testdata/azure-nd96isr-h100-v5.xml"
	for _, format := range []string{"text", "json", "yaml"} {
		got, stderr, err := runMachine(t, "read-nccl-topo", file, "-o", format)
		if err != nil || stderr != "" {
			t.Fatalf("%v, stderr %q", err, stderr)
		}
		golden(t, "nccl-topo."+strings.Replace(format, "text", "txt", 1), got)
		if format == "text" {
			documented(t, "nccl.md", "output", "azure", got)
		}
	}
	// NVLink-C2C: the NUMA node alone, and no attribute.
	const joined = "../nccltopo/testdata/gb200-c2c.xml"
	got, _, err := runMachine(t, "read-nccl-topo", joined)
	if err != nil {
		t.Fatal(err)
	}
	documented(t, "nccl.md", "output", "c2c", got)
	if got, _, err = runMachine(t, "read-nccl-topo", joined, "-o", "yaml"); err != nil || !strings.Contains(got, "\nattributes: {}\n") && !strings.HasPrefix(got, "attributes: {}\n") {
		t.Errorf("%v, want no attributes in\n%s", err, got)
	}
	// A node without CPUs known, and with no pair on it.
	bare := filepath.Join(t.TempDir(), "bare.xml")
	if err := os.WriteFile(bare, []byte(`<system version="1"><cpu numaid="-1"><pci busid="0000:01:00.0" class="0x020000"/></cpu></system>`), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, _, err = runMachine(t, "read-nccl-topo", bare); err != nil {
		t.Fatal(err)
	}
	golden(t, "nccl-topo-bare.txt", got)
}
