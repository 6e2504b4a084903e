// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package pciids

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"sync"
)

// File is a database file whose answers are remembered: it is read once for
// each kind of device that turns up.
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
