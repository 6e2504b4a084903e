// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/topoview"
	"plumbline.dev/plumbline/internal/version"
)

// run runs plumbline ARGS and returns what it prints and exits with.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	code = Run(context.Background(), "/usr/bin/plumbline", args, &out, &errOut)
	return code, out.String(), errOut.String()
}

func TestTopoOfShippedMachines(t *testing.T) {
	for _, name := range machine.Names() {
		for _, format := range []string{"text", "json", "yaml", "svg"} {
			code, out, errOut := run(t, "topo", "--machine", name, "-o", format)
			if code != 0 || errOut != "" {
				t.Errorf("%s as %s: exit code %d: %s", name, format, code, errOut)
			}
			if !strings.Contains(out, name) {
				t.Errorf("%s as %s: the name is missing in\n%s", name, format, out)
			}
			checkFormat(t, format, out)
		}
	}
}

func checkFormat(t *testing.T, format, out string) {
	t.Helper()
	switch format {
	case "json":
		var got topoview.Topology
		if err := json.Unmarshal([]byte(out), &got); err != nil || got.APIVersion != topoview.APIVersion || !slices.Contains([]string{topoview.Kind, topoview.ClusterKind}, got.Kind) {
			t.Errorf("JSON of kind %q, version %q: %v", got.Kind, got.APIVersion, err)
		}
	case "svg":
		for d := xml.NewDecoder(strings.NewReader(out)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				return
			} else if err != nil {
				t.Error(err)
				return
			}
		}
	}
}

// tinyMachine is small, since a tree is many files.
const tinyMachine = `
name: tiny
arch: x86_64
cpu: {sockets: 2, numa_nodes: 2, cpus: 2, smt: 1, snc: false}
numa:
  - {id: 0, cpus: "0"}
  - {id: 1, cpus: "1"}
pcie_roots:
  - {root: "pci0000:a0", numa: 1}
gpus: {devices: []}
nics:
  devices:
    - {rdma: rdmap160s27, bdf: "0000:a0:1b.0", root: "pci0000:a0", numa: 1, ib_only: true}
    - {ifname: ens161, bdf: "0000:a0:01.0", root: "pci0000:a0", numa: 1, rdma: null}
`

// A tree that machine render wrote is shown like the machine.
func TestTopoOfARenderedTree(t *testing.T) {
	file, dir := filepath.Join(t.TempDir(), "tiny.yaml"), filepath.Join(t.TempDir(), "tree")
	if err := os.WriteFile(file, []byte(tinyMachine), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errOut := run(t, "machine", "render", file, "-o", dir); code != 0 {
		t.Fatal(errOut)
	}
	code, out, errOut := run(t, "topo", "--sysfs", dir)
	if code != 0 {
		t.Fatal(errOut)
	}
	for _, want := range []string{"NUMA node 1", "pci0000:a0", "rdmap160s27", "ens161"} {
		if !strings.Contains(out, want) {
			t.Errorf("%s is missing in\n%s", want, out)
		}
	}
}

func TestMatrix(t *testing.T) {
	for _, name := range machine.Names() {
		code, out, errOut := run(t, "topo", "--matrix", "--machine", name)
		if code != 0 {
			t.Fatal(errOut)
		}
		golden(t, "matrix-"+name+".txt", out)
	}
	code, out, errOut := run(t, "topo", "--matrix", "--machine", "aws-p4d.24xlarge", "-o", "json")
	if code != 0 {
		t.Fatal(errOut)
	}
	golden(t, "matrix.json", out)
}

// Claims from a file hold the devices of a machine file.
func TestTopoWithClaims(t *testing.T) {
	code, out, errOut := run(t, "topo", "--machine", "a3-ultragpu-8g", "-f", "testdata/claims.yaml", "--reserved-cpus", "0,56,112,168")
	if code != 0 {
		t.Fatal(errOut)
	}
	golden(t, "topo-claims.txt", out)
}

func TestTopoOfThisHost(t *testing.T) {
	if _, err := os.Stat("/sys/devices"); err != nil {
		t.Skip("this host has no /sys: ", err)
	}
	code, out, errOut := run(t, "topo", "--ascii")
	if code != 0 || !strings.Contains(out, "from /sys of this host") {
		t.Errorf("exit code %d\n%s%s", code, out, errOut)
	}
	// Netlink of the namespace that one is in needs no privilege.
	if strings.Contains(out, "not marked") {
		t.Errorf("the host's own NICs are not known:\n%s", out)
	}
}

func TestRefusals(t *testing.T) {
	for _, tc := range []struct {
		args string
		code int
		want string
	}{
		{"topo --machine no-such-machine", exitError, "no-such-machine"},
		{"topo --kubeconfig /no/such/file --node n", exitError, "/no/such/file"},
		{"topo --sysfs /no/such/dir", exitError, "/no/such/dir"},
		{"topo -o png", exitUsage, `output format "png": want text, json, yaml or svg`},
		{"topo --machine a --node b", exitUsage, "--node and --machine: want one of them"},
		{"topo --machine a --sysfs b", exitUsage, "--sysfs is about this host"},
		{"topo extra", exitUsage, `unknown command "extra"`},
		{"version extra", exitUsage, `unexpected argument "extra"`},
		{"topo --in-pod --matrix", exitUsage, "--in-pod and --matrix: want one of them"},
		{"topo --in-pod --node n", exitUsage, "--in-pod is about the pod this runs in"},
		{"topo --watch --machine a3-ultragpu-8g", exitUsage, "a machine file does not change"},
		{"topo --watch --sysfs /tmp", exitUsage, "nothing tells of changes"},
		{"topo --matrix -o svg", exitUsage, `output format "svg": want text, json or yaml`},
		{"topo --machine a3-ultragpu-8g --reserved-cpus x", exitUsage, "--reserved-cpus"},
		{"topo -f claims.yaml", exitUsage, "want --machine with it"},
		{"topo --machine a3-ultragpu-8g -f /no/such/file", exitUsage, "/no/such/file"},
		{"topo nodes -o png", exitUsage, `output format "png": want text, wide, json, yaml or svg`},
		{"topo nodes a -l b=c", exitUsage, "-l and names of nodes: want one of them"},
		{"topo --no-such-flag", exitUsage, "--no-such-flag"},
		{"no-such-command", exitUsage, `unknown command "no-such-command"`},
	} {
		code, out, errOut := run(t, strings.Fields(tc.args)...)
		first, rest, _ := strings.Cut(errOut, "\n")
		if code != tc.code || out != "" || !strings.HasPrefix(first, "plumbline: ") || !strings.Contains(first, tc.want) {
			t.Errorf("%s: exit code %d, want %d with %q\n%s%s", tc.args, code, tc.code, tc.want, out, errOut)
		}
		if tc.code == exitError && rest != "" {
			t.Errorf("%s: the error is more than a line:\n%s", tc.args, errOut)
		}
	}
}

func TestHelpIsNamedAfterTheProgram(t *testing.T) {
	for program, want := range map[string]string{
		"/usr/bin/plumbline":         "plumbline topo --node gpu-node-1",
		"/usr/bin/kubectl-plumbline": "kubectl plumbline topo --node gpu-node-1",
	} {
		var out, errOut bytes.Buffer
		if code := Run(context.Background(), program, nil, &out, &errOut); code != exitOK || !strings.Contains(out.String(), "\n  "+want) {
			t.Errorf("%s: exit code %d, want %q in\n%s%s", program, code, want, &out, &errOut)
		}
		if strings.Contains(out.String(), "{{") {
			t.Errorf("%s: unexpanded help:\n%s", program, &out)
		}
	}
}

func TestVersion(t *testing.T) {
	if code, out, _ := run(t, "version"); code != exitOK || !strings.HasPrefix(out, "plumbline "+version.Version+" ") {
		t.Errorf("exit code %d: %s", code, out)
	}
}
