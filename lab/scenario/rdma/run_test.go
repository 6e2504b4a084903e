// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/docs/docstest"
	"plumbline.dev/plumbline/lab/scenario/harness"
)

func TestResult(t *testing.T) {
	const out = ` Max inline data : 0[B]
 2 5 1 1
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]
 2          5           0.000004            0.000004            0.000257
 8388608    5           0.067521            0.067521            0.000001
`
	if got, want := result(out, "8388608"), "8388608 5 0.067521 0.067521 0.000001 (#bytes #iterations BW peak[Gb/sec])"; got != want {
		t.Errorf("result %q, want %q", got, want)
	}
	for _, bytes := range []string{"83886", "4"} {
		if got := result(out, bytes); got != "" {
			t.Errorf("result of %s bytes: %q, want none", bytes, got)
		}
	}
}

// No figure is printed without saying that it is an emulated one.
func TestFiguresAreLabelled(t *testing.T) {
	for out, want := range map[string]string{
		" #bytes  #iterations  t_min[usec]\n 2  200  4711.00\n": "  ok     " + latency.command + ": emulated, 2 200 4711.00 (#bytes #iterations t_min[usec])\n",
		"Unable to open the device\n":                           "  WRONG  " + latency.command + ": emulated, \nUnable to open the device\n",
	} {
		var said strings.Builder
		r := run{Config: Config{Cluster: harness.Cluster{Out: &said}}, report: harness.Report{Scenario: "rdma", Out: &said}}
		r.row(out, latency)
		if diff := cmp.Diff(want, said.String()); diff != "" {
			t.Errorf("printed (-want +got):\n%s", diff)
		}
	}
}

func TestToldRight(t *testing.T) {
	const right = `=rxe1:1 rxe1:1 =net1
1
0000:0000:0000:0000:0000:ffff:0a63:0002
RoCE v2
1
/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/rdma/nic/dra.net-metadata.json
unlimited
`
	for name, c := range map[string]struct {
		from, to string
		want     bool
	}{
		"right":             {"", "", true},
		"another device":    {"=rxe1:1", "=rxe2:1", false},
		"RoCE v1":           {"RoCE v2", "IB/RoCE v1", false},
		"another GID":       {"ffff:0a63:0002", "ffff:0a63:0001", false},
		"no topology file":  {"\n1\n/var", "\n0\n/var", false},
		"no metadata":       {"dra.net-metadata.json", "", false},
		"memory is limited": {"unlimited", "8192", false},
		"nothing was said":  {right, "", false},
		"another interface": {"=net1", "=eth0", false},
	} {
		out := strings.Replace(right, c.from, c.to, 1)
		if got := toldRight(out, "rxe1", addresses[client]); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// The one file of verbs is the claimed device's by name and numbers, whatever else is there.
func TestHasOwnFile(t *testing.T) {
	const all = "rxe0 uverbs0 231:192\nrxe1 uverbs4 231:196\n"
	for name, c := range map[string]struct {
		has  string
		want bool
	}{
		"its own":              {"rdma_cm 10:122\nuverbs4 231:196\n", true},
		"its own alone":        {"uverbs4 231:196\n", true},
		"another device's":     {"rdma_cm 10:122\nuverbs0 231:192\n", false},
		"of other numbers":     {"uverbs4 231:192\n", false},
		"another device's too": {"uverbs0 231:192\nuverbs4 231:196\n", false},
		"none":                 {"rdma_cm 10:122\n", false},
		"nothing":              {"", false},
	} {
		if got := hasOwnFile(c.has, all, "rxe1"); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestSameDevice(t *testing.T) {
	const before = "rxe0 on enp2s0\nrxe1 on enp3s0\n"
	for name, c := range map[string]struct {
		after string
		want  bool
	}{
		"as it was":            {before, true},
		"the other is lost":    {"rxe1 on enp3s0\n", true},
		"lost":                 {"rxe0 on enp2s0\n", false},
		"on another interface": {"rxe0 on enp2s0\nrxe1 on enp4s0\n", false},
	} {
		if got := sameDevice(before, c.after, "rxe1"); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if sameDevice(before, before, "rxe") {
		t.Error("a device that the host never had is back")
	}
}

// What docs/rdma.md has readers apply is what runs here, and the other way round. Its jobs
// and its class for gIB are tried in lab/controlplane.
func TestDocumentedManifests(t *testing.T) {
	documented := map[string]string{}
	for _, b := range docstest.Blocks(t, "rdma.md") {
		if b.Kind == "manifest" {
			documented[b.Name] = b.Text
		}
	}
	if all := strings.Count(docstest.Page(t, "rdma.md"), "```yaml\n"); all != len(documented) {
		t.Errorf("docs/rdma.md has %d blocks of YAML, %d of them manifests with a name", all, len(documented))
	}
	delete(documented, "job")
	delete(documented, "gib")
	want := map[string]string{"pods": manifests, "alignment": alignmentManifests}
	if diff := cmp.Diff(want, documented); diff != "" {
		t.Errorf("docs/rdma.md (-run here +documented):\n%s", diff)
	}
}

// The commands of docs/rdma.md are those that run here, but for -n.
func TestDocumentedCommands(t *testing.T) {
	page := docstest.Page(t, "rdma.md")
	for _, command := range []string{
		bandwidth.command + "\n", bandwidth.command + " " + addresses[server].String() + "\n",
		latency.command + "\n", latency.command + " " + addresses[server].String() + "\n",
		latency.command + " &\n", latency.command + " " + loopbackAddress + "\n",
	} {
		if !strings.Contains(page, "\n    "+command) {
			t.Errorf("docs/rdma.md does not have readers run %q", command)
		}
	}
}

func TestParsePlace(t *testing.T) {
	p, err := parsePlace("0\n1\n0 0-1\n1 2-3\n")
	if err != nil || p.nic != 0 || p.near.String() != "0-1" || p.cpus.String() != "1" {
		t.Errorf("place %+v, %v", p, err)
	}
	for name, out := range map[string]string{
		"nothing": "", "a NIC of no node": "-1\n1\n0 0-1\n", "no CPUs": "0\n\n0 0-1\n", "no number": "?\n1\n0 0-1\n",
	} {
		if p, err := parsePlace(out); err == nil {
			t.Errorf("%s: %+v, want an error", name, p)
		}
	}
}
