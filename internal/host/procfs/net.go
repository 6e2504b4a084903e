// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package procfs

import (
	"bufio"
	"bytes"
	"errors"
	"io"
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

// DefaultRoutes adds the interfaces of default routes in /proc/PID/net/route.
func DefaultRoutes(text io.Reader, interfaces map[string]bool) error {
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		// Iface Destination Gateway Flags RefCnt Use Metric Mask
		f := strings.Fields(lines.Text())
		if len(f) >= 8 && f[1] == "00000000" && f[7] == "00000000" {
			interfaces[f[0]] = true
		}
	}
	return lines.Err()
}

// nowhere is the IPv6 address of a default route's destination.
const nowhere = "00000000000000000000000000000000"

// DefaultIPv6Routes adds those in /proc/PID/net/ipv6_route. The kernel's own entry
// that refuses what has no route leads through lo and is left out.
func DefaultIPv6Routes(text io.Reader, interfaces map[string]bool) error {
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		if !bytes.HasPrefix(lines.Bytes(), []byte(nowhere+" 00 ")) {
			continue
		}
		// destination, its length, source, its length, gateway, metric, counts, flags, interface
		f := strings.Fields(lines.Text())
		if len(f) == 10 && f[9] != "lo" {
			interfaces[f[9]] = true
		}
	}
	return lines.Err()
}
