// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"errors"
	"fmt"

	"plumbline.dev/plumbline/internal/driver"
)

// Records are the driver's of this boot. An error says that there may be more, which
// cannot be read; those that can be are returned with it.
func (p *Preparer) Records() ([]driver.Record, error) {
	all, problems, err := p.Journal.List(p.Name())
	errs := []error{err}
	for _, problem := range problems {
		errs = append(errs, problem)
	}
	var ofThisBoot []driver.Record
	for _, r := range all {
		if r.BootID == p.BootID {
			ofThisBoot = append(ofThisBoot, r)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return ofThisBoot, fmt.Errorf("the journal of %s cannot be read, so nobody knows all that claims hold: %w", p.Name(), err)
	}
	return ofThisBoot, nil
}
