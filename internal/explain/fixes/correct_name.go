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

	"plumbline.dev/plumbline/internal/explain/compile"
	"plumbline.dev/plumbline/internal/selector"
	"plumbline.dev/plumbline/internal/suggest"
)

// nameFix replaces a misspelt name.
type nameFix struct {
	words string
	apply func(claim int, c *resourceapi.ResourceClaim)
}

// names corrects names that nothing has: of classes, of attributes in
// constraints, and of those in selectors. One of them may be enough, or it takes
// all.
func (f *finder) names() {
	var all []nameFix
	for i, c := range f.claims {
		all = append(all, f.classNames(i, c)...)
		for k := range c.Spec.Devices.Constraints {
			all = append(all, f.constraintName(memberRef{i, k})...)
		}
		for r := range c.Spec.Devices.Requests {
			all = append(all, f.selectorNames(memberRef{i, r})...)
			all = append(all, f.derivedNames(memberRef{i, r})...)
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

func (f *finder) constraintName(p memberRef) []nameFix {
	name, distinct := compile.Attribute(f.constraint(p))
	if name == "" || f.a.HasAttribute(name) || f.derived(p.claim, name) {
		return nil
	}
	meant := f.a.SuggestAttribute(name)
	if meant == "" {
		return nil
	}
	return []nameFix{{fmt.Sprintf("%s instead of %s in constraint %d", meant, name, p.index), func(claim int, c *resourceapi.ResourceClaim) {
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
func (f *finder) classNames(claim int, c *resourceapi.ResourceClaim) []nameFix {
	classes := slices.Sorted(maps.Keys(f.a.Cluster.Classes))
	var all []nameFix
	seen := map[string]bool{}
	for i := range c.Spec.Devices.Requests {
		for _, x := range fieldsOf(&c.Spec.Devices.Requests[i]) {
			name := *x.class
			meant := suggest.Closest(name, classes)
			if f.a.Cluster.Classes[name] != nil || meant == "" || seen[name] {
				continue
			}
			seen[name] = true
			all = append(all, nameFix{fmt.Sprintf("%s instead of %s as the device class", meant, name), func(other int, c *resourceapi.ResourceClaim) {
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
func (f *finder) selectorNames(p memberRef) []nameFix {
	var all []nameFix
	for x, parts := range fieldsOf(&f.claims[p.claim].Spec.Devices.Requests[p.index]) {
		for i, s := range *parts.selectors {
			if s.CEL == nil {
				continue
			}
			read, err := selector.Analyse(s.CEL.Expression)
			if err != nil {
				continue
			}
			for _, attribute := range read.Reads {
				meant := f.a.SuggestAttribute(attribute.String())
				if f.a.HasAttribute(attribute.String()) || meant == "" {
					continue
				}
				all = append(all, nameFix{
					fmt.Sprintf("%s instead of %s in selector %d of %s", meant, attribute, i, f.request(p).Alternatives[x].Name),
					func(claim int, c *resourceapi.ResourceClaim) {
						if claim == p.claim {
							selectors := *fieldsOf(&c.Spec.Devices.Requests[p.index])[x].selectors
							selectors[i].CEL.Expression = rename(selectors[i].CEL.Expression, attribute, meant)
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
