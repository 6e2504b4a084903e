// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package mission

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

// Table is examples/mission.yaml.
type Table struct {
	// Deviations is how many rows differ from their document. It may only fall.
	Deviations int `json:"deviations"`
	// Machines are those of the lab that rows run on, in this order.
	Machines  []Machine  `json:"machines"`
	Documents []Document `json:"documents"`
}

// Machine is one that rows run on, by the name that the lab has for it.
type Machine struct {
	Name string `json:"name"`
	// Is says what it is.
	Is string `json:"is"`
}

// Document is a page of the mission.
type Document struct {
	// Name is that of its folder below examples.
	Name  string `json:"name"`
	Title string `json:"title"`
	// Machine is where rows run that name none.
	Machine string `json:"machine"`
	Rows    []Row  `json:"rows"`
}

// Row is a command, a manifest or a check of a document.
type Row struct {
	// ID is the row's name, which no other row has.
	ID string `json:"id"`
	// At is the heading of the document below which it stands, Line the line of the text.
	At   string `json:"at"`
	Line int    `json:"line"`
	// Machine is where it runs, when not on the document's.
	Machine string `json:"machine,omitempty"`

	// Command is printed in the document.
	Command string `json:"command,omitempty"`
	// File is a manifest that the document prints, by the name under which it is saved.
	File string `json:"file,omitempty"`
	// Says is a sentence of the document that is to be true.
	Says string `json:"says,omitempty"`
	// Check is the command that shows it where the document prints none.
	Check string `json:"check,omitempty"`

	Step
	// Background says that the next rows need it running.
	Background bool `json:"background,omitempty"`

	Deviation *Deviation `json:"deviation,omitempty"`
}

// Step is how a command is run and judged.
type Step struct {
	// In is whose shell runs the command: "node", "pod NAME", or the reader's.
	In string `json:"in,omitempty"`
	// Fill are words of the command in whose place a reader types what these commands print.
	Fill map[string]string `json:"fill,omitempty"`
	// Wait has the command run until it is judged right.
	Wait bool `json:"wait,omitempty"`
	// Prints is what the command prints.
	Prints string `json:"prints,omitempty"`
	Judge  *Judge `json:"judge,omitempty"`
}

// Deviation is what is otherwise here than in the document, and why.
type Deviation struct {
	// Reason is one of the reasons that there are.
	Reason string `json:"reason"`
	// Because says it in a sentence.
	Because string `json:"because"`
	// Overlay is the folder of the example that makes Files, which are its objects, such as
	// "Pod trainer", by the name of the file.
	Overlay string              `json:"overlay,omitempty"`
	Files   map[string][]string `json:"files,omitempty"`
	// Command is run in place of the printed one, by In and Fill of its own. Where there is
	// none, the printed one is, if it is judged.
	Command string `json:"command,omitempty"`

	Step
}

// Read reads a table and refuses one that says something twice or not at all.
func Read(text []byte) (*Table, error) {
	t := &Table{}
	if err := yaml.UnmarshalStrict(text, t); err != nil {
		return nil, fmt.Errorf("read the mission's table: %w", err)
	}
	if err := t.check(); err != nil {
		return nil, fmt.Errorf("read the mission's table: %w", err)
	}
	return t, nil
}

// rowsOn are the rows of a document that run on a machine, in the document's order.
func (d Document) rowsOn(machine string) []Row {
	var rows []Row
	for _, r := range d.Rows {
		if r.Machine == machine || r.Machine == "" && d.Machine == machine {
			rows = append(rows, r)
		}
	}
	return rows
}

// all are the rows of all documents.
func (t *Table) all() []Row {
	var rows []Row
	for _, d := range t.Documents {
		rows = append(rows, d.Rows...)
	}
	return rows
}

// declared is how many rows differ, by their reasons.
func (t *Table) declared() (n int, byReason map[string]int) {
	byReason = map[string]int{}
	for _, r := range t.all() {
		if r.Deviation != nil {
			n++
			byReason[r.Deviation.Reason]++
		}
	}
	return n, byReason
}

// typed is what is run for a row without its deviation: the document's command, or the one
// that shows what it says.
func (r Row) typed() string {
	if r.Command != "" {
		return r.Command
	}
	return r.Check
}

// left says that nothing is run for the row: its deviation has nothing to judge, and only
// says why.
func (r Row) left() bool { return r.Deviation != nil && r.Deviation.Judge == nil && r.File == "" }
