// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package configtest

import "fmt"

// families are what one element of a list is of: its addresses agree.
var families = []struct {
	prefix, other, address string
	// minMTU is the least packet in bytes.
	minMTU int64
}{
	{"10.%d.0.0/16", "192.168.0.0/16", "10.0.0.%d", 68},
	{"fd00:%x::/32", "fd99::/16", "fd00::%x", 1280},
}

// list makes up to three elements, each with a number of its own.
func (g generator) list(element func(n int) map[string]any) any {
	list := []any{}
	for n := range g.r.IntN(4) {
		list = append(list, element(n+1))
	}
	return list
}

func (g generator) routes() any {
	return g.list(func(n int) map[string]any {
		f := families[g.r.IntN(len(families))]
		route := map[string]any{"destination": fmt.Sprintf(f.prefix, n)}
		if g.maybe() {
			route["gateway"] = fmt.Sprintf(f.address, n)
			g.set(route, "scope", func() any { return 0 })
			g.set(route, "onlink", func() any { return g.maybe() })
		} else {
			route["scope"] = 253
		}
		g.set(route, "source", func() any { return fmt.Sprintf(f.address, n+100) })
		g.set(route, "table", func() any { return g.between(0, 1<<32-1) })
		g.set(route, "metric", func() any { return g.between(0, 1<<32-1) })
		g.set(route, "mtu", func() any { return g.between(f.minMTU, 65535) })
		return route
	})
}

func (g generator) rules() any {
	return g.list(func(n int) map[string]any {
		f := families[g.r.IntN(len(families))]
		rule := map[string]any{"table": g.between(1, 1<<32-1), "source": fmt.Sprintf(f.prefix, n)}
		g.set(rule, "destination", func() any { return f.other })
		g.set(rule, "priority", func() any { return g.between(0, 32767) })
		return rule
	})
}

func (g generator) neighbors() any {
	return g.list(func(n int) map[string]any {
		f := families[g.r.IntN(len(families))]
		return map[string]any{g.pick("ipAddress", "destination"): fmt.Sprintf(f.address, n), "hardwareAddr": "02:00:00:00:00:09"}
	})
}
