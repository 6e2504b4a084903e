// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package fixes

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/explain/reason"
	"plumbline.dev/plumbline/internal/selector"
)

// guardWords is what guard proposes; the expressions stand at the end, to be
// copied.
const guardWords = "guard the selector, so that it passes over devices without the attribute, "

// guard makes selectors pass over devices that lack what they read.
func (f *finder) guard() {
	if f.cause != reason.SelectorAborts {
		return
	}
	var words []string
	claims := f.changed(func(_ int, c *resourceapi.ResourceClaim) {
		for r := range c.Spec.Devices.Requests {
			for _, x := range fieldsOf(&c.Spec.Devices.Requests[r]) {
				if n := guardAll(*x.selectors); n != "" {
					words = append(words, fmt.Sprintf("of %s: %s", c.Spec.Devices.Requests[r].Name, n))
				}
			}
		}
	})
	if len(words) > 0 {
		f.propose(GuardSelector, guardWords+strings.Join(words, "; "), f.here(claims))
	}
	// The class may be to blame.
	classes := maps.Clone(f.a.Cluster.Classes)
	words = nil
	for _, name := range slices.Sorted(maps.Keys(classes)) {
		if !f.usesClass(name) {
			continue
		}
		c := classes[name].DeepCopy()
		if n := guardAll(c.Spec.Selectors); n != "" {
			words = append(words, fmt.Sprintf("of device class %s: %s", name, n))
			classes[name] = c
		}
	}
	if len(words) > 0 {
		f.propose(GuardSelector, guardWords+strings.Join(words, "; "),
			Trial{Cluster: f.a.Cluster.WithClasses(classes), Node: f.a.Node.Node.Name, Claims: f.claims})
	}
}

func (f *finder) usesClass(name string) bool {
	for _, c := range f.claims {
		for i := range c.Spec.Devices.Requests {
			for _, x := range fieldsOf(&c.Spec.Devices.Requests[i]) {
				if *x.class == name {
					return true
				}
			}
		}
	}
	return false
}

// guardAll guards selectors in place, and returns the last of those that it
// changed.
func guardAll(selectors []resourceapi.DeviceSelector) string {
	changed := ""
	for i := range selectors {
		if selectors[i].CEL == nil {
			continue
		}
		text := selectors[i].CEL.Expression
		read, err := selector.Analyse(text)
		if err != nil || len(read.Unguarded) == 0 {
			continue
		}
		var guards []string
		for _, a := range read.Unguarded {
			guards = append(guards, fmt.Sprintf("%q in device.attributes[%q]", a.Name, a.Domain))
		}
		changed = strings.Join(guards, " && ") + " && (" + text + ")"
		selectors[i].CEL = &resourceapi.CELDeviceSelector{Expression: changed}
	}
	return changed
}
