// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostpolicy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"plumbline.dev/plumbline/internal/atomicfile"
	"plumbline.dev/plumbline/internal/hostsetup"
	"plumbline.dev/plumbline/internal/model"
)

// Entry is one value that was changed.
type Entry struct {
	Link  string `json:"link"`
	Field string `json:"field"`
	// Before is the value that the first change found.
	Before string `json:"before"`
	// Set are the values that were, or were about to be, written.
	Set []string `json:"set"`
}

// Record is what was changed since the host's start.
type Record struct {
	BootID  string  `json:"bootID"`
	Entries []Entry `json:"entries"`
}

// Reader reads the fields of links and of the host.
type Reader interface {
	Read(link Link, field string) (string, error)
	// Unsettled says whether a value may yet become another without being written again.
	Unsettled(link Link, field string) bool
	// Used says who uses the PCI function of a link, or a virtual one of it, beside the
	// host, as a clause; empty where nobody does.
	Used(link Link) (string, error)
}

// Kernel reads and writes them.
type Kernel interface {
	Reader
	Write(link Link, field, value string) error
}

// Reconciler brings a host to what its policies want.
type Reconciler struct {
	// File holds the record.
	File string
	// BootID is the running kernel's: a reboot undoes every change by itself.
	BootID string
	Kernel Kernel
}

// Run makes the host what valid policies want, and puts back what none wants any
// more. The results of what could not be done say so; the error is for a record that
// cannot be read or written, after which nothing more is changed.
func (r *Reconciler) Run(policies []Policy, machine *model.Machine) ([]Result, error) {
	record, err := r.load()
	if err != nil {
		return nil, err
	}
	plan := NewPlan(policies, machine, record, r.Kernel)
	for _, s := range plan.Steps {
		failed, err := r.do(&record, s)
		if err != nil {
			return plan.Results, err
		}
		plan.tell(s, failed)
	}
	return plan.Results, nil
}

// Changed says whether there may be something to put back: the record is there.
func (r *Reconciler) Changed() bool {
	_, err := os.Stat(r.File)
	return !errors.Is(err, fs.ErrNotExist)
}

// do takes one step; what the kernel refuses is failed.
func (r *Reconciler) do(record *Record, s Step) (failed, err error) {
	if s.Undo {
		if !s.Forget {
			if err := r.Kernel.Write(s.Link, s.Field, s.Want); err != nil {
				return err, nil
			}
		}
		record.Entries = slices.DeleteFunc(record.Entries, func(e Entry) bool { return e.Link == s.Link.Key && e.Field == s.Field })
		return nil, r.save(*record)
	}
	if record.note(s) {
		if err := r.save(*record); err != nil {
			return nil, err
		}
	}
	return r.Kernel.Write(s.Link, s.Field, s.Want), nil
}

// note records a step, and tells whether that is new.
func (r *Record) note(s Step) bool {
	i := slices.IndexFunc(r.Entries, func(e Entry) bool { return e.Link == s.Link.Key && e.Field == s.Field })
	if i < 0 {
		i = len(r.Entries)
		r.Entries = append(r.Entries, Entry{Link: s.Link.Key, Field: s.Field, Before: s.Before})
	}
	e, noted := &r.Entries[i], false
	for _, value := range s.writes() {
		if !slices.Contains(e.Set, value) {
			e.Set, noted = append(e.Set, value), true
		}
	}
	return noted
}

// tell puts the outcome of a step into the results that wanted it.
func (p *Plan) tell(s Step, failed error) {
	state, reason := Applied, ""
	switch {
	case errors.Is(failed, hostsetup.ErrAsked), errors.Is(failed, errClosing):
		state, reason = Pending, failed.Error()
	case failed != nil:
		state, reason = Failed, failed.Error()
	}
	if s.Undo {
		if failed != nil {
			r := notPutBack(s)
			r.State, r.Reason = state, r.Reason+reason
			p.Results = append(p.Results, r)
		}
		return
	}
	for i := range p.Results {
		r := &p.Results[i]
		if r.Link == s.Link.Key && r.Field == s.Field && r.Want == s.Want && r.State == Planned {
			r.State, r.Reason = state, reason
		}
	}
}

func (r *Reconciler) load() (Record, error) {
	none := Record{BootID: r.BootID}
	text, err := os.ReadFile(r.File)
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	var record Record
	if err == nil {
		err = json.Unmarshal(text, &record)
	}
	if err != nil {
		return none, fmt.Errorf("read what policies changed: %s: %w", r.File, err)
	}
	if record.BootID != r.BootID {
		return none, nil
	}
	return record, nil
}

func (r *Reconciler) save(record Record) error {
	text, err := json.Marshal(record)
	if err == nil {
		err = atomicfile.Write(r.File, 0o600, bytes.NewReader(text))
	}
	if err != nil {
		return fmt.Errorf("record what policies change: %w", err)
	}
	return nil
}
