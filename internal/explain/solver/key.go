// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package solver

import "encoding/binary"

// Key is equal for equal problems: what is true of one is true of the other,
// device by device.
func (p *Problem) Key() string {
	w := keyWriter{}
	w.numbers(int64(p.MaxResults), int64(len(p.Devices)))
	for _, d := range p.Devices {
		w.flags(d.Shared, d.CountersHeld)
		w.list(d.Free)
		w.numbers(int64(len(d.Takes)))
		for _, t := range d.Takes {
			w.numbers(int64(t.Counter), t.Amount)
		}
	}
	w.list(p.Counters)
	w.numbers(int64(len(p.Claims)))
	for _, c := range p.Claims {
		w.numbers(int64(len(c.Requests)), int64(len(c.Constraints)))
		for _, r := range c.Requests {
			w.numbers(int64(len(r.Alternatives)))
			for _, a := range r.Alternatives {
				w.alternative(&a)
			}
		}
		for _, k := range c.Constraints {
			w.flags(k.Invalid, k.Distinct)
			for _, applies := range k.Applies {
				w.flags(applies...)
			}
			for _, v := range k.Values {
				w.key = v.append(w.key)
			}
		}
	}
	return string(w.key)
}

type keyWriter struct{ key []byte }

func (w *keyWriter) numbers(all ...int64) {
	for _, n := range all {
		w.key = binary.AppendVarint(w.key, n)
	}
}

func (w *keyWriter) list(all []int64) {
	w.numbers(int64(len(all)))
	w.numbers(all...)
}

func (w *keyWriter) flags(all ...bool) {
	for _, is := range all {
		if is {
			w.key = append(w.key, 1)
		} else {
			w.key = append(w.key, 0)
		}
	}
}

func (w *keyWriter) alternative(a *Alternative) {
	w.flags(a.Invalid, a.WantsAll, a.Admin)
	w.numbers(int64(a.Count), int64(len(a.All)))
	for _, d := range a.All {
		w.numbers(int64(d))
	}
	for _, fit := range a.Fit {
		w.key = append(w.key, byte(fit))
	}
	for _, needs := range a.Needs {
		w.list(needs)
	}
}
