// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package solver

import "encoding/binary"

// classify finds the devices that nothing tells apart: they fit the same
// requests, have the same values, and consume the same.
func (s *Solver) classify() {
	s.class = make([]int, len(s.p.Devices))
	known := map[string]int{}
	var key []byte
	for d := range s.p.Devices {
		var wanted bool
		key, wanted = s.signature(key[:0], d)
		if !wanted {
			s.class[d] = -1
			continue
		}
		id, seen := known[string(key)]
		if !seen {
			id = s.classes
			known[string(key)] = id
			s.classes++
		}
		s.class[d] = id
	}
}

// signature is all that is known of a device, and whether a request can have
// it.
func (s *Solver) signature(key []byte, d int) ([]byte, bool) {
	device := &s.p.Devices[d]
	// What is shared has a state of its own.
	if device.Shared || s.individual {
		key = binary.AppendVarint(key, int64(d)+1)
	} else {
		key = binary.AppendVarint(key, 0)
	}
	wanted := false
	for _, claim := range s.p.Claims {
		for _, r := range claim.Requests {
			for _, a := range r.Alternatives {
				fit := No
				if d < len(a.Fit) {
					fit = a.Fit[d]
				}
				wanted = wanted || fit != No
				key = append(key, byte(fit))
				if a.WantsAll {
					key = append(key, contains(a.All, d))
				}
			}
		}
		for i := range claim.Constraints {
			if c := &claim.Constraints[i]; !c.Invalid {
				key = c.Values[d].append(key)
			}
		}
	}
	for _, t := range device.Takes {
		key = binary.AppendVarint(key, int64(t.Counter))
		key = binary.AppendVarint(key, t.Amount)
	}
	return key, wanted
}

func contains(all []int, d int) byte {
	for _, x := range all {
		if x == d {
			return 1
		}
	}
	return 0
}

func (v Value) append(key []byte) []byte {
	key = append(key, byte(v.Kind))
	key = binary.AppendVarint(key, int64(v.ID))
	key = binary.AppendVarint(key, int64(len(v.IDs)))
	for _, id := range v.IDs {
		key = binary.AppendVarint(key, int64(id))
	}
	return key
}
