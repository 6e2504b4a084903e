// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hoststate

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// refuseNeeded refuses what others on the host need by now.
func refuseNeeded(v *view, s *State) error {
	for _, l := range v.links {
		if l.Lower != nil && *l.Lower == s.Index {
			kind := "link"
			if l.Kind != nil {
				kind = *l.Kind
			}
			return fmt.Errorf("interface %s carries %s %s, which would lose it: remove that first", s.Name, kind, l.Name)
		}
	}
	for _, r := range v.routes {
		inUse := r.Table == unix.RT_TABLE_MAIN || r.Table == unix.RT_TABLE_DEFAULT
		if inUse && r.Unicast && r.Destination.Bits() == 0 && r.Through(s.Index) {
			return fmt.Errorf("interface %s carries the default route (%s): it is the node's", s.Name, r.Text)
		}
	}
	return nil
}

// refuseLost refuses what no message brings back.
func (h *Host) refuseLost(s *State) error {
	if s.XDP && !h.AllowLoss {
		return fmt.Errorf("interface %s has an XDP program, which could not be restored: detach it first", s.Name)
	}
	return nil
}

// refuseNames refuses names that a record, which is JSON, would change. The
// kernel takes any bytes but slashes, colons and blanks (net/core/dev.c,
// dev_valid_name).
func (s *State) refuseNames() error {
	var errs []error
	for _, name := range append([]string{s.Name}, s.AltNames...) {
		if !utf8.ValidString(name) {
			errs = append(errs, fmt.Errorf("interface %q: its name %q is not UTF-8, and could not be restored: rename it", s.Name, name))
		}
	}
	return errors.Join(errs...)
}
