// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"plumbline.dev/plumbline/machines"
)

// Names lists the shipped machines, sorted.
func Names() []string {
	entries, err := fs.ReadDir(machines.Files, ".")
	if err != nil {
		return nil // embedded: the directory cannot be missing
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}

// Source is the text of a machine file, and its name in errors.
type Source struct {
	Name string
	Data []byte
}

// ReadSource reads the text of the shipped machine of that name, or else of
// the file at that path.
func ReadSource(nameOrPath string) (Source, error) {
	file := nameOrPath + ".yaml"
	if !strings.ContainsRune(nameOrPath, '/') {
		data, err := machines.Files.ReadFile(file)
		if err == nil {
			return Source{Name: path.Join("machines", file), Data: data}, nil
		}
	}
	data, err := os.ReadFile(nameOrPath)
	if errors.Is(err, fs.ErrNotExist) {
		return Source{}, fmt.Errorf("open machine %q: no such file, and no shipped machine of that name (there are %s): %w",
			nameOrPath, strings.Join(Names(), ", "), fs.ErrNotExist)
	}
	if err != nil {
		return Source{}, fmt.Errorf("open machine: %w", err)
	}
	return Source{Name: nameOrPath, Data: data}, nil
}

// Open reads a facts file by name or path.
func Open(nameOrPath string) (*Facts, error) {
	source, err := ReadSource(nameOrPath)
	if err != nil {
		return nil, err
	}
	return Parse(source.Data, source.Name)
}
