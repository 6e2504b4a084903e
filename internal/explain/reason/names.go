// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package reason

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"plumbline.dev/plumbline/internal/explain/compile"
	"plumbline.dev/plumbline/internal/explain/solver"
	"plumbline.dev/plumbline/internal/plural"
	"plumbline.dev/plumbline/internal/suggest"
)

// MemberName names a request or constraint; where there are several claims, with
// the claim.
func (a *Answer) MemberName(m solver.Member) string {
	claim := a.Claims[m.Claim]
	name := ""
	if m.Constraint {
		attribute, distinct := compile.Attribute(&claim.Claim.Spec.Devices.Constraints[m.Index])
		kind := "matchAttribute"
		if distinct {
			kind = "distinctAttribute"
		}
		name = fmt.Sprintf("constraint %d (%s %s)", m.Index, kind, attribute)
	} else {
		name = claim.Requests[m.Index].Name
	}
	if len(a.Claims) > 1 {
		name += " of claim " + claim.Claim.Name
	}
	return name
}

// DeviceName names a device of the node: its pool is called as the node nearly
// always.
func (a *Answer) DeviceName(d int) string {
	id := a.Devices[d].ID
	if id.Pool == a.Node.Node.Name {
		return id.Driver + "/" + id.Device
	}
	return id.String()
}

func amount(x *compile.Alternative) string {
	if x.All {
		return "all devices"
	}
	return plural.Count(int(x.Count), "device", "devices")
}

// join makes "a, b and c".
func join(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// HasAttribute says whether any device of the cluster has an attribute of the name.
func (a *Answer) HasAttribute(name string) bool {
	_, found := slices.BinarySearch(a.Cluster.AttributeNames(), name)
	return found
}

// SuggestAttribute is the attribute that was probably meant by a name that no device has,
// "" without any.
func (a *Answer) SuggestAttribute(name string) string {
	known := a.Cluster.AttributeNames()
	domain, bare, _ := strings.Cut(name, "/")
	var here []string
	for _, k := range known {
		if rest, same := strings.CutPrefix(k, domain+"/"); same {
			here = append(here, rest)
		}
	}
	if meant := suggest.Closest(bare, here); meant != "" {
		return domain + "/" + meant
	}
	// The right name in the wrong domain.
	for _, k := range known {
		if strings.HasSuffix(k, "/"+bare) {
			return k
		}
	}
	return suggest.Closest(name, known)
}

// display is how the values of an attribute are shown: without their type.
func display(values []string) string {
	shown := make([]string, len(values))
	for i, v := range values {
		_, shown[i], _ = strings.Cut(v, " ")
	}
	return strings.Join(shown, "|")
}

// valuesOf lists the values that devices have of an attribute, the most frequent
// first, each with its number.
func (a *Answer) valuesOf(devices []int, name string) []string {
	count := map[string]int{}
	for _, d := range devices {
		if attribute := compile.Lookup(&a.Devices[d], name); attribute != nil {
			values, _ := compile.Values(attribute)
			count[display(values)]++
		}
	}
	return frequent(count, len(count))
}

// maxShown is the most values or holders that a line names.
const maxShown = 8

// frequent lists what was counted, the most frequent first.
func frequent(count map[string]int, kinds int) []string {
	names := slices.Sorted(maps.Keys(count))
	slices.SortStableFunc(names, func(x, y string) int { return count[y] - count[x] })
	var all []string
	for i, name := range names {
		if i == maxShown {
			all = append(all, fmt.Sprintf("and %d more", kinds-maxShown))
			break
		}
		all = append(all, fmt.Sprintf("%s (%d)", name, count[name]))
	}
	return all
}
