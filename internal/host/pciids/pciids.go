// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package pciids looks names up in the pci.ids database that distributions
// ship as /usr/share/misc/pci.ids.
//
// A machine has a dozen kinds of devices and the database forty thousand lines,
// so it is read in one pass for the identities that are asked for and never
// kept: libraries that hold all of it cost an agent several megabytes for good.
package pciids

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// ID is a vendor and a device of it.
type ID struct{ Vendor, Device uint16 }

// Name is what the database calls them; Device is empty where it knows only
// the vendor.
type Name struct{ Vendor, Device string }

// Lookup reads the database and returns the names of the identities wanted; an
// identity of an unknown vendor is left out. Lines are "vvvv  Vendor name" and
// below it, one tab in, "dddd  Device name"; two tabs are subsystems, and a
// line "C ..." begins the classes, which end the devices.
func Lookup(database io.Reader, wanted []ID) (map[ID]Name, error) {
	vendors := map[uint16][]ID{}
	for _, id := range wanted {
		vendors[id.Vendor] = append(vendors[id.Vendor], id)
	}
	names := make(map[ID]Name, len(wanted))
	var current []ID // the identities wanted of the vendor being read
	lines := bufio.NewScanner(database)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case line == "" || line[0] == '#' || strings.HasPrefix(line, "\t\t"):
		case strings.HasPrefix(line, "C "):
			return names, nil
		case line[0] == '\t':
			if current == nil {
				continue
			}
			number, text, ok := entry(line[1:])
			for _, id := range current {
				if ok && id.Device == number {
					names[id] = Name{Vendor: names[id].Vendor, Device: text}
				}
			}
		default:
			number, text, ok := entry(line)
			current = nil
			if !ok {
				continue
			}
			current = vendors[number]
			for _, id := range current {
				names[id] = Name{Vendor: text}
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read pci.ids: %w", err)
	}
	return names, nil
}

// entry splits "15b3  Mellanox Technologies".
func entry(line string) (number uint16, text string, ok bool) {
	id, text, ok := strings.Cut(line, "  ")
	if !ok || len(id) != 4 {
		return 0, "", false
	}
	n, err := strconv.ParseUint(id, 16, 16)
	return uint16(n), strings.TrimSpace(text), err == nil
}
