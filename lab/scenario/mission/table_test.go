// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package mission

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/golden"
)

const (
	examples = "../../../examples"
	page     = "../../../docs/mission.md"
)

func readTable(t testing.TB) (*Table, string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(examples, "mission.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	table, err := Read(text)
	if err != nil {
		t.Fatal(err)
	}
	return table, string(text)
}

func TestPageIsOfTheTable(t *testing.T) {
	table, _ := readTable(t)
	golden.Assert(t, page, table.Page())
}

// The documents' texts are no part of the repository: their manifests are, and each of
// these is saved by a row.
func TestEveryManifestHasARow(t *testing.T) {
	table, _ := readTable(t)
	for _, d := range table.Documents {
		texts, err := os.ReadFile(filepath.Join(examples, "testdata", d.Name+".txt"))
		if os.IsNotExist(err) {
			continue // it prints none as a whole
		}
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(texts)) {
			file, heads := strings.CutPrefix(strings.TrimSpace(line), "== ")
			if heads && !slices.ContainsFunc(d.Rows, func(r Row) bool { return r.File == file }) {
				t.Errorf("document %s: no row saves %s", d.Name, file)
			}
		}
	}
}

// What a row saves is there to be saved.
func TestRowsNameFilesThatAreThere(t *testing.T) {
	table, _ := readTable(t)
	for _, d := range table.Documents {
		for _, r := range d.Rows {
			var path string
			switch {
			case r.Deviation != nil && r.Deviation.Overlay != "":
				path = filepath.Join(examples, d.Name, r.Deviation.Overlay, "kustomization.yaml")
			case r.File != "":
				path = filepath.Join(examples, d.Name, "manifests", r.File)
			default:
				continue
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("row %s: %v", r.ID, err)
			}
		}
	}
}

// Every row of the table is on one machine, and none is forgotten by who runs them machine
// by machine.
func TestEveryRowIsRun(t *testing.T) {
	table, _ := readTable(t)
	n := 0
	for _, m := range table.Machines {
		here := 0
		for _, d := range table.Documents {
			here += len(d.rowsOn(m.Name))
		}
		if here == 0 {
			t.Errorf("machine %s: no row runs there", m.Name)
		}
		n += here
	}
	if all := len(table.all()); n != all {
		t.Errorf("%d rows run, of %d", n, all)
	}
}

// small is a table of one row, in which words are exchanged.
const small = `deviations: 1
machines: [{name: a3, is: a machine}]
documents:
- name: doc
  title: A document
  machine: a3
  rows:
  - id: one
    at: Heading
    line: 3
    command: kubectl get pods
    prints: a 7s
    judge: {by: lines, own: {7s: '\S+'}}
    deviation:
      reason: machine
      because: It is small.
      judge: {by: fails, want: [absent]}
`

func TestTablesThatAreRefused(t *testing.T) {
	if _, err := Read([]byte(small)); err != nil {
		t.Fatal(err)
	}
	row := small[strings.Index(small, "  - id: one"):]
	for what, change := range map[string][2]string{
		`unknown field "lines"`:                     {"    line: 3", "    lines: 3"},
		`"id" already set`:                          {"    at: Heading", "    id: two"},
		"row one: another row has this id":          {row, row + row},
		`by "guess": want one of succeeds, exact`:   {"by: lines", "by: guess"},
		"judge: by lines: want prints":              {"    prints: a 7s\n", ""},
		`own: "8s" is not printed`:                  {"own: {7s:", "own: {8s:"},
		"missing argument to repetition operator":   {`'\S+'`, `'+'`},
		"by fails: want expressions in want":        {", want: [absent]", ""},
		`reason "small": want cloud-cli, internet`:  {"reason: machine", "reason: small"},
		"want because, a sentence":                  {"It is small.", `""`},
		"fewer than the 2 of the table's head":      {"deviations: 1", "deviations: 2"},
		"the table's head allows 0":                 {"deviations: 1", "deviations: 0"},
		`"gcloud" leaves the lab`:                   {"kubectl get pods", "gcloud version"},
		"the command has a no-break space":          {"kubectl get pods", "kubectl get\u00a0pods"},
		`in: "attic": want node or pod NAME`:        {"    command:", "    in: attic\n    command:"},
		`fill: "zz" is not in the command`:          {"    command:", "    fill: {zz: ls}\n    command:"},
		`machine "b3" is none of the table's`:       {"    command:", "    machine: b3\n    command:"},
		`got machine "b3"`:                          {"machine: a3\n", "machine: b3\n"},
		"deviation: command is the printed one":     {"      judge:", "      command: kubectl get pods\n      judge:"},
		"overlay and files go together":             {"      judge:", "      overlay: lab\n      judge:"},
		"want a command, or a file or what the doc": {"    command: kubectl get pods\n", ""},
		"want id, at and line":                      {"    line: 3", "    line: 0"},
		"the command is not judged: want judge":     {"      judge: {by: fails, want: [absent]}", "      command: ls"},
	} {
		text := strings.Replace(small, change[0], change[1], 1)
		if text == small {
			t.Fatalf("%s: nothing changed", what)
		}
		if _, err := Read([]byte(text)); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("want %q, got %v", what, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	_, text := readTable(f)
	f.Add(text)
	f.Add(small)
	f.Fuzz(func(t *testing.T, text string) {
		table, err := Read([]byte(text))
		if err != nil {
			return
		}
		if n, _ := table.declared(); n != table.Deviations {
			t.Errorf("%d deviations, declared %d", n, table.Deviations)
		}
		_ = table.Page()
	})
}
