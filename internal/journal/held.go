// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package journal

import "slices"

// Held are the claims with a record of one of the drivers, as text for people. It only
// reads: opening the journal would make it, and clean it, which whoever has it mounted
// read-only cannot.
func Held(dir string, drivers []string) ([]string, error) {
	records := &Journal{dir: dir}
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
