// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Problem is one thing wrong with a machine file.
type Problem struct {
	File string
	// Line counts from 1.
	Line int
	// Field is where, such as "gpus.devices[2].bdf"; empty for the whole file.
	Field string
	// Reason is what is wrong and what would be right.
	Reason string
}

// Error is "file:line: field: reason".
func (p *Problem) Error() string {
	if p.Field == "" {
		return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Reason)
	}
	return fmt.Sprintf("%s:%d: %s: %s", p.File, p.Line, p.Field, p.Reason)
}

// problems collects, so that one reading tells all that is wrong.
type problems struct {
	file string
	list []*Problem
}

func (p *problems) add(line int, field, format string, args ...any) {
	p.list = append(p.list, &Problem{File: p.file, Line: line, Field: field, Reason: fmt.Sprintf(format, args...)})
}

// err joins the problems in the file's order; nil when there is none.
func (p *problems) err() error {
	slices.SortStableFunc(p.list, func(a, b *Problem) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Field, b.Field)) })
	errs := make([]error, len(p.list))
	for i, one := range p.list {
		errs[i] = one
	}
	return errors.Join(errs...)
}
