// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"strconv"

	"plumbline.dev/plumbline/internal/machine/facts"
)

// ruleNames names every interface: as the facts say, else in the manner of
// udev's predictable names (enP257p0s0, ibp24s0f1, enp5s0d1), else ethN.
func ruleNames(nics []function) map[*facts.Device]string {
	names := map[*facts.Device]string{}
	taken := map[string]bool{}
	functions := map[string]int{}
	for i := range nics {
		functions[slot(&nics[i])]++
		for _, d := range nics[i].devices {
			taken[d.Ifname] = true
		}
	}
	for i := range nics {
		f := &nics[i]
		for port, d := range f.devices {
			name := cmp.Or(d.Ifname, predictable(f, d, port, functions[slot(f)] > 1))
			if d.Ifname == "" && (taken[name] || len(name) > facts.MaxInterfaceName) {
				name = freeName(taken)
			}
			taken[name] = true
			names[d] = name
		}
	}
	return names
}

func predictable(f *function, d *facts.Device, port int, multifunction bool) string {
	name := "en"
	if infiniBand(d) {
		name = "ib"
	}
	if f.address.Domain != 0 {
		name += fmt.Sprintf("P%d", f.address.Domain)
	}
	name += fmt.Sprintf("p%ds%d", f.address.Bus, f.address.Device)
	if multifunction || f.address.Function > 0 {
		name += fmt.Sprintf("f%d", f.address.Function)
	}
	if port > 0 {
		name += fmt.Sprintf("d%d", port)
	}
	return name
}

func freeName(taken map[string]bool) string {
	for i := 0; ; i++ {
		if name := "eth" + strconv.Itoa(i); !taken[name] {
			return name
		}
	}
}
