// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package configtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

var coreKinds = []string{"standard", "p-core", "e-core"}

// ValidCPU makes a document of dra.cpu that decodes and validates.
func ValidCPU(r *rand.Rand) map[string]any {
	g := generator{r}
	doc := map[string]any{}
	if g.maybe() {
		doc["apiVersion"], doc["kind"] = g.pick("plumbline.dev/v1alpha1", "v1alpha1"), "CPUConfig"
	}
	g.set(doc, "fullCores", func() any { return g.maybe() })
	g.set(doc, "l3", func() any { return g.pick("pack", "spread") })
	g.set(doc, "coreTypes", func() any {
		kinds := slices.Clone(coreKinds)
		r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		types := map[string]any{}
		g.set(types, "prefer", func() any { return kinds[0] })
		g.set(types, "exclude", func() any {
			list := []any{}
			for _, k := range kinds[1 : 1+r.IntN(3)] {
				list = append(list, k)
			}
			return list
		})
		return types
	})
	if g.maybe() {
		g.set(doc, "cpuset", g.cpuList)
	} else {
		g.set(doc, "cpuConfig", func() any {
			older := map[string]any{}
			g.set(older, "cpuset", g.cpuList)
			return older
		})
	}
	return doc
}

func (g generator) cpuList() any {
	var parts []string
	for range g.r.IntN(4) {
		first := g.between(0, 1023)
		parts = append(parts, g.pick(fmt.Sprint(first), fmt.Sprintf("%d-%d", first, first+g.between(0, 8))))
	}
	return strings.Join(parts, ",")
}

// cpuFields are all fields of dra.cpu that have a value, with what their type is
// called.
var cpuFields = []fieldRef{
	{"", "fullCores", "flag"}, {"", "l3", "text"}, {"", "cpuset", "text"}, {"", "coreTypes", "object"}, {"", "cpuConfig", "object"},
	{"coreTypes", "prefer", "text"}, {"coreTypes", "exclude", "list"}, {"cpuConfig", "cpuset", "text"},
}

var noCPULists = []any{
	"x", "-1", "1-", "-", ",", "1,,2", "1,", "3-1", "65536", "0-65536", "0-4294967295", "1 2", "0x3", "1-2-3", "٣", "1\n",
}

// cpuMistakes are values and combinations that no configuration may have, with
// the field that is wrong.
var cpuMistakes = []combination{
	{"l3", func(doc, _ map[string]any) { doc["l3"] = "" }},
	{"l3", func(doc, _ map[string]any) { doc["l3"] = "Spread" }},
	{"coreTypes.prefer", func(_, types map[string]any) { types["prefer"] = "performance" }},
	{"coreTypes.prefer", func(_, types map[string]any) { types["prefer"], types["exclude"] = "e-core", []any{"e-core"} }},
	{"coreTypes.exclude[1]", func(_, types map[string]any) { types["exclude"] = []any{"p-core", "P-core"} }},
	{"coreTypes.exclude[1]", func(_, types map[string]any) { types["exclude"] = []any{"p-core", "p-core"} }},
	{"coreTypes.exclude[0]", func(_, types map[string]any) { types["exclude"] = []any{nil} }},
	{"coreTypes.exclude", func(_, types map[string]any) {
		delete(types, "prefer")
		types["exclude"] = []any{"p-core", "standard", "e-core"}
	}},
	{"cpuConfig.cpuset", func(doc, _ map[string]any) { doc["cpuset"], doc["cpuConfig"] = "1", map[string]any{"cpuset": "1"} }},
	{"apiVersion", func(doc, _ map[string]any) { doc["apiVersion"] = "v1" }},
	{"kind", func(doc, _ map[string]any) { doc["kind"] = "NetworkConfig" }},
}

// InvalidCPU makes a document of dra.cpu with one mistake, and says at which field
// an error must find it.
func InvalidCPU(r *rand.Rand) (doc map[string]any, path string) {
	doc = ValidCPU(r)
	g := generator{r}
	switch r.IntN(4) {
	case 0:
		path = g.misspell(doc, cpuFields)
	case 1:
		path = g.mistype(doc, cpuFields)
	case 2:
		m := cpuMistakes[r.IntN(len(cpuMistakes))]
		m.make(doc, child(doc, "coreTypes"))
		path = m.path
	default:
		wrong := noCPULists[r.IntN(len(noCPULists))]
		if _, older := doc["cpuConfig"]; older {
			child(doc, "cpuConfig")["cpuset"], path = wrong, "cpuConfig.cpuset"
		} else {
			doc["cpuset"], path = wrong, "cpuset"
		}
	}
	return doc, path
}
