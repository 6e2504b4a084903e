// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package pciids looks names up in the pci.ids database that distributions
// ship as /usr/share/misc/pci.ids.
//
// A machine has a dozen kinds of devices and the database forty thousand lines, so it
// is read in one pass for the wanted identities, and not kept in memory, where it would
// take several megabytes.
package pciids

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"strconv"
	"strings"
	"sync"
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

// File is a database file with a cache of answers: it is read again only for a kind of
// device that was not looked up before.
type File struct {
	path string

	mu    sync.Mutex
	asked map[ID]bool
	names map[ID]Name
}

// Open names a database file. It need not exist: then nothing has a name.
func Open(path string) *File {
	return &File{path: path, asked: map[ID]bool{}, names: map[ID]Name{}}
}

// Lookup returns the names known of the identities wanted.
func (f *File) Lookup(wanted []ID) (map[ID]Name, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var fresh []ID
	for _, id := range wanted {
		if !f.asked[id] {
			fresh = append(fresh, id)
		}
	}
	if len(fresh) > 0 {
		if err := f.read(fresh); err != nil {
			return nil, err
		}
	}
	return maps.Clone(f.names), nil
}

func (f *File) read(ids []ID) error {
	database, err := os.Open(f.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		defer database.Close()
		names, err := Lookup(database, ids)
		if err != nil {
			return err
		}
		maps.Copy(f.names, names)
	}
	for _, id := range ids {
		f.asked[id] = true
	}
	return nil
}
