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

// correction is a name written otherwise.
type correction struct {
	words string
	apply func(claim int, c *resourceapi.ResourceClaim)
}

// names corrects names that nothing has: of classes, of attributes in
// constraints, and of those in selectors. One of them may be enough, or it takes
// all.
func (f *finder) names() {
	var all []correction
	for i, c := range f.claims {
		all = append(all, f.classNames(i, c)...)
		for k := range c.Spec.Devices.Constraints {
			all = append(all, f.constraintName(place{i, k})...)
		}
		for r := range c.Spec.Devices.Requests {
			all = append(all, f.selectorNames(place{i, r})...)
		}
	}
	found := false
	for _, one := range all {
		found = f.propose(CorrectName, "write "+one.words, f.here(f.changed(one.apply))) || found
	}
	if found || len(all) < 2 {
		return
	}
	words := make([]string, len(all))
	for i := range all {
		words[i] = all[i].words
	}
	f.propose(CorrectName, "write "+strings.Join(words, ", and "), f.here(f.changed(func(claim int, c *resourceapi.ResourceClaim) {
		for _, one := range all {
			one.apply(claim, c)
		}
	})))
}

func (f *finder) constraintName(p place) []correction {
	name, distinct := compile.Attribute(f.constraint(p))
	if name == "" || f.a.Known(name) {
		return nil
	}
	meant := f.a.Meant(name)
	if meant == "" {
		return nil
	}
	return []correction{{fmt.Sprintf("%s instead of %s in constraint %d", meant, name, p.index), func(claim int, c *resourceapi.ResourceClaim) {
		if claim == p.claim {
			setAttribute(&c.Spec.Devices.Constraints[p.index], meant, distinct)
		}
	}}}
}

func setAttribute(c *resourceapi.DeviceConstraint, name string, distinct bool) {
	if distinct {
		c.DistinctAttribute = ptr.To(resourceapi.FullyQualifiedName(name))
	} else {
		c.MatchAttribute = ptr.To(resourceapi.FullyQualifiedName(name))
	}
}

// classNames corrects the classes that a claim asks for.
func (f *finder) classNames(claim int, c *resourceapi.ResourceClaim) []correction {
	classes := slices.Sorted(maps.Keys(f.a.Cluster.Classes))
	var all []correction
	seen := map[string]bool{}
	for i := range c.Spec.Devices.Requests {
		for _, x := range fieldsOf(&c.Spec.Devices.Requests[i]) {
			name := *x.class
			meant := nearest.Of(name, classes)
			if f.a.Cluster.Classes[name] != nil || meant == "" || seen[name] {
				continue
			}
			seen[name] = true
			all = append(all, correction{fmt.Sprintf("%s instead of %s as the device class", meant, name), func(other int, c *resourceapi.ResourceClaim) {
				for i := range c.Spec.Devices.Requests {
					for _, x := range fieldsOf(&c.Spec.Devices.Requests[i]) {
						if other == claim && *x.class == name {
							*x.class = meant
						}
					}
				}
			}})
		}
	}
	return all
}

// selectorNames corrects the attributes that the selectors of a request read.
func (f *finder) selectorNames(p place) []correction {
	var all []correction
	for x, parts := range fieldsOf(&f.claims[p.claim].Spec.Devices.Requests[p.index]) {
		for i, s := range parts.selectors {
			if s.CEL == nil {
				continue
			}
			read, err := selector.Analyse(s.CEL.Expression)
			if err != nil {
				continue
			}
			for _, attribute := range read.Reads {
				meant := f.a.Meant(attribute.String())
				if f.a.Known(attribute.String()) || meant == "" {
					continue
				}
				all = append(all, correction{
					fmt.Sprintf("%s instead of %s in selector %d of %s", meant, attribute, i, f.request(p).Alternatives[x].Name),
					func(claim int, c *resourceapi.ResourceClaim) {
						if claim == p.claim {
							text := &fieldsOf(&c.Spec.Devices.Requests[p.index])[x].selectors[i].CEL.Expression
							*text = rename(*text, attribute, meant)
						}
					},
				})
			}
		}
	}
	return all
}

// rename writes another attribute into an expression.
func rename(expression string, old selector.Attribute, name string) string {
	domain, bare, _ := strings.Cut(name, "/")
	expression = strings.ReplaceAll(expression, `"`+old.Domain+`"`, `"`+domain+`"`)
	return regexp.MustCompile(`\b`+regexp.QuoteMeta(old.Name)+`\b`).ReplaceAllLiteralString(expression, bare)
}

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
				if n := guardAll(x.selectors); n != "" {
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
