// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
)

// Key collects what decides the result of a step and turns it into a short
// name. Two steps with equal keys have equal results.
type Key struct {
	parts []string
}

// Add appends values as they are. Order matters.
func (k *Key) Add(values ...string) *Key {
	k.parts = append(k.parts, values...)
	return k
}

// AddFiles appends name and content of every regular file below fsys.
func (k *Key) AddFiles(fsys fs.FS) error {
	return fs.WalkDir(fsys, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := fs.ReadFile(fsys, path)
		if err != nil {
			return err
		}
		k.Add(path, string(data))
		return nil
	})
}

// String returns the key's first 16 hexadecimal digits: plenty to tell the
// versions of one step apart.
func (k *Key) String() string {
	h := sha256.New()
	for _, part := range k.parts {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}
