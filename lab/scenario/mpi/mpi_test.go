// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package mpi

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

func TestReadResult(t *testing.T) {
	const ranks = "+ mpirun -np 2 allreduce\nALLREDUCE_RANK rank=1 host=b\nALLREDUCE_RANK rank=0 host=a\n"
	const line = "ALLREDUCE_RESULT ranks=2 rounds=8 bytes=8388608 wrong=0"
	for name, tc := range map[string]struct {
		log  string
		want result
		fits bool
	}{
		"a run":                   {ranks + line + "\n", result{2, 8, 8388608, 0}, true},
		"without its last line":   {ranks, result{}, false},
		"cut in the middle":       {ranks + line[:len(line)-2], result{}, false},
		"something behind it":     {line + "1x\n", result{}, false},
		"twice":                   {line + "\n" + line + "\n", result{}, false},
		"a number that is a word": {strings.Replace(line, "8388608", "NaN", 1), result{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readResult(tc.log)
			if (err == nil) != tc.fits || got != tc.want {
				t.Errorf("got %v, %v; want %v, a result: %t", got, err, tc.want, tc.fits)
			}
		})
	}
	if got := hosts(ranks + line); !slices.Equal(got, []string{"b", "a"}) {
		t.Errorf("hosts %q", got)
	}
}

func TestRight(t *testing.T) {
	good := result{2, 8, 100, 0}
	if !good.right(2) {
		t.Errorf("%v is wrong", good)
	}
	for _, bad := range []result{{1, 8, 100, 0}, {2, 0, 100, 0}, {2, 8, 0, 0}, {2, 8, 100, 1}} {
		if bad.right(2) {
			t.Errorf("%v is right", bad)
		}
	}
}

// Of two ranks each has to send as much as the vector is, of four half as much again.
func TestLeast(t *testing.T) {
	for r, want := range map[result]int{{2, 8, 100, 0}: 800, {4, 8, 100, 0}: 1200, {1, 8, 100, 0}: 0} {
		if got := r.least(); got != want {
			t.Errorf("%v: at least %d bytes, want %d", r, got, want)
		}
	}
}

func TestReadLinks(t *testing.T) {
	got, err := readLinks("dranet0 67108864 02:00:00:00:00:01\neth0 5000 02:00:00:00:00:02\nsit0 0\n")
	want := map[string]link{"dranet0": {67108864, "02:00:00:00:00:01"}, "eth0": {5000, "02:00:00:00:00:02"}, "sit0": {}}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	for _, bad := range []string{"eth0\n", "eth0 many 02:00:00:00:00:02\n"} {
		if got, err := readLinks(bad); err == nil || !strings.Contains(err.Error(), "eth0") {
			t.Errorf("%q: %v, %v; want an error that names it", bad, got, err)
		}
	}
}

// The NICs are all in which what the arms apply differs.
func TestArmsDifferInNICs(t *testing.T) {
	example, err := os.ReadFile("../../../examples/mpi-operator-gpudirect/host/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	first, err := arms[0].manifest(string(example))
	if err != nil || first != string(example) {
		t.Errorf("the first arm is not the example: %v", err)
	}
	second, err := arms[1].manifest(string(example))
	if err != nil {
		t.Fatal(err)
	}
	var differ []string
	lines := strings.Split(second, "\n")
	for i, line := range strings.Split(first, "\n") {
		if line != lines[i] {
			differ = append(differ, strings.TrimSpace(lines[i]))
		}
	}
	if want := `value: device.attributes["dra.net"].ifName in ["nic4", "nic5"]`; !slices.Equal(differ, []string{want}) {
		t.Errorf("they differ in %q, want %q", differ, want)
	}
	if _, err := arms[1].manifest(second); err == nil {
		t.Error("a manifest without the documented NICs was taken")
	}
}

// A worker whose claimed NIC carried too little, or whose pod's own interface carried it, is
// wrong, and so is one whose interface is another NIC.
func TestMoved(t *testing.T) {
	got := result{2, 8, 100, 0}
	const nic = "02:00:00:00:00:01"
	before := link{50, nic}
	for name, tc := range map[string]struct {
		inside map[string]link
		right  bool
	}{
		"over the claimed NIC":    {map[string]link{ifname: {50 + 800, nic}, "eth0": {sent: beside}}, true},
		"less than it takes":      {map[string]link{ifname: {50 + 799, nic}, "eth0": {sent: beside}}, false},
		"over the pods' network":  {map[string]link{ifname: {50 + 800, nic}, "eth0": {sent: beside + 1}}, false},
		"another NIC":             {map[string]link{ifname: {50 + 800, "02:00:00:00:00:02"}}, false},
		"no NIC of the claim's":   {map[string]link{"eth0": {sent: 800}}, false},
		"what it had sent before": {map[string]link{ifname: {50 + 50, nic}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			r := &run{report: harness.Report{Out: &out}}
			r.moved("nic0", before, tc.inside, got.least())
			if right := !strings.Contains(out.String(), "WRONG"); right != tc.right {
				t.Errorf("right: %t, want %t:\n%s", right, tc.right, out.String())
			}
		})
	}
}
