// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package fixes

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/api/nearest"
	"plumbline.dev/plumbline/internal/explain/compile"
	"plumbline.dev/plumbline/internal/explain/reason"
	"plumbline.dev/plumbline/internal/selector"
)

// names corrects names that nothing has: of classes, of attributes in
// constraints, and of those in selectors.
func (f *finder) names() {
	f.className()
	requests, constraints := f.members()
	for _, p := range constraints {
		name, distinct := compile.Attribute(f.constraint(p))
		meant := f.a.Meant(name)
		if name == "" || f.a.Known(name) || meant == "" {
			continue
		}
		f.propose(CorrectName, fmt.Sprintf("write %s instead of %s in constraint %d", meant, name, p.index),
			f.here(f.changed(func(claim int, c *resourceapi.ResourceClaim) {
				if claim == p.claim {
					setAttribute(&c.Spec.Devices.Constraints[p.index], meant, distinct)
				}
			})))
	}
	for _, p := range requests {
		f.selectorNames(p)
	}
}

func setAttribute(c *resourceapi.DeviceConstraint, name string, distinct bool) {
	if distinct {
		c.DistinctAttribute = ptr.To(resourceapi.FullyQualifiedName(name))
	} else {
		c.MatchAttribute = ptr.To(resourceapi.FullyQualifiedName(name))
	}
}

func (f *finder) className() {
	if f.cause != reason.ClassAbsent {
		return
	}
	classes := slices.Sorted(maps.Keys(f.a.Cluster.Classes))
	corrected := map[string]string{}
	claims := f.changed(func(_ int, c *resourceapi.ResourceClaim) {
		for i := range c.Spec.Devices.Requests {
			for _, x := range fieldsOf(&c.Spec.Devices.Requests[i]) {
				if f.a.Cluster.Classes[*x.class] != nil {
					continue
				}
				if meant := nearest.Of(*x.class, classes); meant != "" {
					corrected[*x.class] = meant
					*x.class = meant
				}
			}
		}
	})
	var words []string
	for _, name := range slices.Sorted(maps.Keys(corrected)) {
		words = append(words, fmt.Sprintf("%s instead of %s", corrected[name], name))
	}
	if len(words) > 0 {
		f.propose(CorrectName, "write "+strings.Join(words, " and ")+" as the device class", f.here(claims))
	}
}

// selectorNames corrects the attributes that the selectors of a request read.
func (f *finder) selectorNames(p place) {
	var words []string
	claims := f.changed(func(claim int, c *resourceapi.ResourceClaim) {
		if claim != p.claim {
			return
		}
		for _, x := range fieldsOf(&c.Spec.Devices.Requests[p.index]) {
			for i := range x.selectors {
				if x.selectors[i].CEL == nil {
					continue
				}
				text := &x.selectors[i].CEL.Expression
				read, err := selector.Analyse(*text)
				if err != nil {
					continue
				}
				for _, attribute := range read.Reads {
					meant := f.a.Meant(attribute.String())
					if f.a.Known(attribute.String()) || meant == "" {
						continue
					}
					*text = rename(*text, attribute, meant)
					words = append(words, fmt.Sprintf("%s instead of %s", meant, attribute))
				}
			}
		}
	})
	if len(words) > 0 {
		f.propose(CorrectName, fmt.Sprintf("read %s in the selector of %s", strings.Join(words, " and "), f.request(p).Name), f.here(claims))
	}
}

// rename writes another attribute into an expression.
func rename(expression string, old selector.Attribute, name string) string {
	domain, bare, _ := strings.Cut(name, "/")
	expression = strings.ReplaceAll(expression, `"`+old.Domain+`"`, `"`+domain+`"`)
	return regexp.MustCompile(`\b`+regexp.QuoteMeta(old.Name)+`\b`).ReplaceAllLiteralString(expression, bare)
}

// guard makes selectors pass over devices that lack what they read.
func (f *finder) guard() {
	if f.cause != reason.SelectorAborts {
		return
	}
	var words []string
	claims := f.changed(func(_ int, c *resourceapi.ResourceClaim) {
		for r := range c.Spec.Devices.Requests {
			for _, x := range fieldsOf(&c.Spec.Devices.Requests[r]) {
				if n := guardAll(x.selectors); n != "" {
					words = append(words, fmt.Sprintf("%s of %s", n, c.Spec.Devices.Requests[r].Name))
				}
			}
		}
	})
	if len(words) > 0 {
		f.propose(GuardSelector, "guard the selector, so that it passes over devices without the attribute: "+strings.Join(words, "; "), f.here(claims))
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
			words = append(words, fmt.Sprintf("%s of device class %s", n, name))
			classes[name] = c
		}
	}
	if len(words) > 0 {
		f.propose(GuardSelector, "guard the selector, so that it passes over devices without the attribute: "+strings.Join(words, "; "),
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
