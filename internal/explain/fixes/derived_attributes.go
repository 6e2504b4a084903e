// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package fixes

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/explain/compile"
	"plumbline.dev/plumbline/internal/explain/reason"
	"plumbline.dev/plumbline/internal/selector"
)

// guardDerived has requests pass over devices that lack what their derived attributes
// read: by a selector, since an expression has to make a value of every device it sees.
func (f *finder) guardDerived() {
	if f.cause != reason.DerivedAborts {
		return
	}
	var words []string
	claims := f.changed(func(_ int, c *resourceapi.ResourceClaim) {
		for r := range c.Spec.Devices.Requests {
			for _, x := range fieldsOf(&c.Spec.Devices.Requests[r]) {
				if guard := guardOf(*x.derived); guard != "" && len(*x.selectors) < resourceapi.DeviceSelectorsMaxSize {
					// CEL evaluates the selectors in their order: those of the request may rely on it.
					*x.selectors = append([]resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: guard}}}, *x.selectors...)
					words = append(words, fmt.Sprintf("of %s: %s", c.Spec.Devices.Requests[r].Name, guard))
				}
			}
		}
	})
	if len(words) > 0 {
		f.propose(GuardDerived, "pass over devices without what the derived attribute reads, by a selector "+strings.Join(words, "; "), f.here(claims))
	}
}

// guardOf is a selector for the devices that have what derived attributes read, "" where
// they read nothing that a device may lack.
func guardOf(derived []resourceapi.DeviceDerivedAttribute) string {
	var guards []string
	for _, attribute := range derived {
		read, err := selector.AnalyseDerived(attribute.Expression)
		if err != nil {
			continue
		}
		for _, a := range read.Unguarded {
			if guard := fmt.Sprintf("%q in device.attributes[%q]", a.Name, a.Domain); !slices.Contains(guards, guard) {
				guards = append(guards, guard)
			}
		}
	}
	return strings.Join(guards, " && ")
}

// pruneDerived takes out of a claim the derived attributes that no constraint on their
// request compares: the API server refuses such.
func pruneDerived(c *resourceapi.ResourceClaim) {
	for i := range c.Spec.Devices.Requests {
		r := &c.Spec.Devices.Requests[i]
		for k, x := range fieldsOf(r) {
			subrequest := compile.Subrequests(i, r)[k]
			*x.derived = slices.DeleteFunc(slices.Clone(*x.derived), func(d resourceapi.DeviceDerivedAttribute) bool {
				return !slices.ContainsFunc(c.Spec.Devices.Constraints, func(constraint resourceapi.DeviceConstraint) bool {
					name, _ := compile.Attribute(&constraint)
					return name == string(d.Name) && compile.Applies(&constraint, r.Name, &subrequest)
				})
			})
		}
	}
}

// derived says whether any request of a claim derives an attribute.
func (f *finder) derived(claim int, name string) bool {
	c := f.claims[claim]
	for i := range c.Spec.Devices.Requests {
		for _, x := range fieldsOf(&c.Spec.Devices.Requests[i]) {
			if slices.ContainsFunc(*x.derived, func(d resourceapi.DeviceDerivedAttribute) bool { return string(d.Name) == name }) {
				return true
			}
		}
	}
	return false
}

// derivedNames corrects the attributes that the derived ones of a request read.
func (f *finder) derivedNames(p memberRef) []nameFix {
	var all []nameFix
	for x, parts := range fieldsOf(&f.claims[p.claim].Spec.Devices.Requests[p.index]) {
		for i, derived := range *parts.derived {
			read, err := selector.AnalyseDerived(derived.Expression)
			if err != nil {
				continue
			}
			for _, attribute := range read.Reads {
				meant := f.a.SuggestAttribute(attribute.String())
				if f.a.HasAttribute(attribute.String()) || meant == "" {
					continue
				}
				all = append(all, nameFix{
					fmt.Sprintf("%s instead of %s in derived attribute %s of %s", meant, attribute, derived.Name, f.request(p).Alternatives[x].Name),
					func(claim int, c *resourceapi.ResourceClaim) {
						if claim == p.claim {
							entry := &(*fieldsOf(&c.Spec.Devices.Requests[p.index])[x].derived)[i]
							entry.Expression = rename(entry.Expression, attribute, meant)
						}
					},
				})
			}
		}
	}
	return all
}

// derivedToo says, where a constraint is not to compare an attribute any more, that what
// requests derive for it alone has to go too.
func (f *finder) derivedToo(name string) string {
	for i := range f.claims {
		if f.derived(i, name) {
			return "; a derivedAttributes entry for it that no constraint compares any more has to go with it"
		}
	}
	return ""
}
