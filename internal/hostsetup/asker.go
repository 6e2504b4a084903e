// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostsetup

import (
	"errors"
	"fmt"
	"os"
	"slices"
)

// ErrAsked says that a change was asked for, and is not made yet.
var ErrAsked = errors.New("plumbline-host-setup is asked to do it")

// Asker asks for changes. Its zero value asks nobody. It is for one goroutine.
type Asker struct {
	dir     string
	last    Request
	answers answers
	now     []Change
	// builtIn are fields of modules that turned out to be part of the kernel.
	builtIn map[string]bool
}

// NewAsker returns one that asks by files of a folder, which it makes.
func NewAsker(dir, bootID string) (*Asker, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("folder of requests: %w", err)
	}
	a := &Asker{dir: dir, builtIn: map[string]bool{}}
	if err := load(dir, requestFile, &a.last); err != nil {
		return nil, err
	}
	if a.last.BootID != bootID {
		a.last = Request{BootID: bootID}
	}
	return a, nil
}

// Begin starts a round of asking: what is not asked for in it is asked for no more.
func (a *Asker) Begin() error {
	a.now, a.answers = nil, answers{}
	if a.dir == "" {
		return nil
	}
	if err := load(a.dir, answersFile, &a.answers); err != nil {
		return err
	}
	if a.answers.BootID != a.last.BootID {
		a.answers = answers{}
	}
	for _, w := range a.answers.Answers {
		if w.BuiltIn {
			a.builtIn[w.Field] = true
		}
	}
	return nil
}

// BuiltIn says whether the answer was once that a module is part of the kernel, of which
// there need be no folder in sysfs (Documentation/ABI/stable/sysfs-module).
func (a *Asker) BuiltIn(field string) bool { return a.builtIn[field] }

// Ask asks for a change that Validate allows, and returns why it was not made when it was
// last asked for, or ErrAsked.
func (a *Asker) Ask(c Change) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if !a.Enabled() {
		return errors.New("an agent may not: want the chart's value hostSetup.enabled to be true")
	}
	a.now = append(a.now, c)
	for _, w := range a.answers.Answers {
		if w.Change == c && w.Error != "" {
			return errors.New(w.Error)
		}
	}
	return ErrAsked
}

// End hands over what was asked for since Begin.
func (a *Asker) End() error {
	if a.dir == "" || slices.Equal(a.now, a.last.Changes) {
		return nil
	}
	next := Request{BootID: a.last.BootID, Number: a.last.Number + 1, Changes: a.now}
	if err := save(a.dir, requestFile, next); err != nil {
		return err
	}
	a.last = next
	return nil
}

// Unsettled says whether a value may yet be changed because that was asked for: the other
// side has not answered what was asked last, and may be at something asked before.
func (a *Asker) Unsettled() bool { return a.answers.Number != a.last.Number }

// Enabled says whether there is anybody to ask.
func (a *Asker) Enabled() bool { return a.dir != "" }

// Functions are the PCI functions for which a field was asked for last.
func (a *Asker) Functions(field string) []string {
	var functions []string
	for _, c := range a.last.Changes {
		if c.Field == field {
			functions = append(functions, c.Function)
		}
	}
	return functions
}

// Asking says whether there is something to do for the other side: a change, be it again, or
// to say that it does nothing any more.
func (a *Asker) Asking() bool { return len(a.last.Changes) > 0 || a.Unsettled() }
