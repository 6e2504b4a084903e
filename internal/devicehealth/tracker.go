// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package devicehealth

import (
	"slices"
	"time"

	"plumbline.dev/plumbline/internal/model"
)

// findings are what one scan found of a device: by kind of fault what is wrong, nil
// where nothing is. A kind that was not scanned has no entry, and stays as it was.
type findings map[model.FaultKind]*string

// tracker makes faults of findings: what is wrong has to stay so for a while,
// and what is well again too. A link that flaps has one fault, not many.
type tracker struct {
	raise, clear, settle time.Duration
	devices              map[string]*device
}

type device struct {
	// quiet is until when findings are ignored: the device is being moved.
	quiet time.Time
	kinds map[model.FaultKind]*condition
}

// condition is the state of one kind of fault.
type condition struct {
	raised  bool
	wrong   bool      // at the last scan
	since   time.Time // of wrong's value
	message string
	began   time.Time // of the fault
}

func (t *tracker) device(name string) *device {
	d := t.devices[name]
	if d == nil {
		d = &device{kinds: map[model.FaultKind]*condition{}}
		t.devices[name] = d
	}
	return d
}

// observe takes what a scan found.
func (t *tracker) observe(name string, found findings, now time.Time) {
	d := t.device(name)
	for kind, message := range found {
		c := d.kinds[kind]
		if c == nil {
			c = &condition{since: now}
			d.kinds[kind] = c
		}
		if wrong := message != nil; wrong != c.wrong {
			c.wrong, c.since = wrong, now
		}
		// The message of a fault that stands is not changed: each change is a
		// write to the API server that says nothing new.
		if message != nil && !c.raised {
			c.message = *message
		}
	}
}

// moving says that the device is about to be moved, or was: its link goes down
// and trains again, which takes some seconds.
func (t *tracker) moving(name string, now time.Time) {
	d := t.device(name)
	d.quiet = now.Add(t.settle)
	for _, c := range d.kinds {
		c.since = now
	}
}

// keep forgets all devices but these.
func (t *tracker) keep(known map[string]bool) {
	for name := range t.devices {
		if !known[name] {
			delete(t.devices, name)
		}
	}
}

// tick raises and clears what has lasted. It says whether anything changed, and
// when to come again; zero when nothing is under way.
func (t *tracker) tick(now time.Time) (changed bool, next time.Time) {
	for _, d := range t.devices {
		for _, c := range d.kinds {
			if c.wrong == c.raised {
				continue
			}
			due := c.since.Add(t.clear)
			if c.wrong {
				due = c.since.Add(t.raise)
			}
			if due.Before(d.quiet) {
				due = d.quiet
			}
			if now.Before(due) {
				if next.IsZero() || due.Before(next) {
					next = due
				}
				continue
			}
			c.raised, changed = c.wrong, true
			c.began = c.since.Truncate(time.Second)
		}
	}
	return changed, next
}

// faults lists what is raised, by device.
func (t *tracker) faults() map[string][]model.Fault {
	all := map[string][]model.Fault{}
	for name, d := range t.devices {
		var list []model.Fault
		for kind, c := range d.kinds {
			if c.raised {
				list = append(list, model.Fault{Kind: kind, Message: c.message, Since: c.began})
			}
		}
		if len(list) > 0 {
			slices.SortFunc(list, model.CompareFaults)
			all[name] = list
		}
	}
	return all
}
