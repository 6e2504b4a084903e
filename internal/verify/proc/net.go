// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"errors"
	"strings"
)

// ParseNetDev reads the names of interfaces from /proc/PID/net/dev: two lines of
// heading, then a line for each.
func ParseNetDev(text []byte) ([]string, error) {
	var names []string
	line := 0
	for l := range bytes.Lines(text) {
		if line++; line <= 2 {
			continue
		}
		// A name has neither blanks nor slashes (net/core/dev.c,
		// dev_valid_name), but may have a colon: the figures' is the last.
		at := bytes.LastIndexByte(l, ':')
		if at < 0 {
			return nil, errors.New("net/dev: want NAME: and figures in every line")
		}
		name := string(bytes.TrimSpace(l[:at]))
		if name == "" || strings.ContainsAny(name, "/ \t\x00") {
			return nil, errors.New("net/dev: want a name before the colon")
		}
		names = append(names, name)
	}
	if line < 2 {
		return nil, errors.New("net/dev: want two lines of heading")
	}
	return names, nil
}

// DefaultRoutes reads the interfaces of default routes from /proc/PID/net/route
// and /proc/PID/net/ipv6_route; either may be empty. The kernel's own entry
// that refuses what has no route leads through lo and is left out.
func DefaultRoutes(route, ipv6 []byte) map[string]bool {
	interfaces := map[string]bool{}
	for l := range bytes.Lines(route) {
		// Iface Destination Gateway Flags RefCnt Use Metric Mask
		f := strings.Fields(string(l))
		if len(f) >= 8 && f[1] == "00000000" && f[7] == "00000000" {
			interfaces[f[0]] = true
		}
	}
	nowhere := strings.Repeat("0", 32)
	for l := range bytes.Lines(ipv6) {
		// destination, its length, source, its length, gateway, metric, counts, flags, interface
		f := strings.Fields(string(l))
		if len(f) == 10 && f[0] == nowhere && f[1] == "00" && f[9] != "lo" {
			interfaces[f[9]] = true
		}
	}
	return interfaces
}
