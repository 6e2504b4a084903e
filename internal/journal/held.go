// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"errors"
	"io/fs"
	"os"
	"slices"
)

// Held are the claims with a record of one of the drivers, as text for people. It reads
// the journal in a directory without opening it, which would make it.
func Held(dir string, drivers []string) ([]string, error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	records, err := Open(dir)
	if err != nil {
		return nil, err
	}
	var held []string
	for _, driver := range drivers {
		list, problems, err := records.List(driver)
		if err != nil {
			return nil, err
		}
		for _, record := range list {
			held = append(held, driver+" for "+record.Claim.String())
		}
		for _, problem := range problems {
			held = append(held, problem.Path+" (cannot be read)")
		}
	}
	slices.Sort(held)
	return held, nil
}
