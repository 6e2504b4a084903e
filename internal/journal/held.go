// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"slices"

	"plumbline.dev/plumbline/internal/driver"
)

// Held are the claims with a record of one of the drivers, as text for people, and the
// files that cannot be read.
func Held(dir string, drivers []string) ([]string, error) {
	records, problems, err := Read(dir, drivers)
	if err != nil {
		return nil, err
	}
	var held []string
	for _, record := range records {
		held = append(held, HeldBy(record))
	}
	for _, problem := range problems {
		held = append(held, problem.Path+" (cannot be read)")
	}
	slices.Sort(held)
	return held, nil
}

// HeldBy names the driver and the claim of a record.
func HeldBy(r driver.Record) string { return r.Driver + " for " + r.Claim.String() }

// Read returns the records of drivers, and the files that are none. It only reads: opening
// the journal would make it, and clean it, which whoever has it mounted read-only cannot.
func Read(dir string, drivers []string) (records []driver.Record, problems []Problem, err error) {
	j := &Journal{dir: dir}
	for _, name := range drivers {
		list, unread, err := j.List(name)
		if err != nil {
			return nil, nil, err
		}
		records, problems = append(records, list...), append(problems, unread...)
	}
	return records, problems, nil
}
