// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package cache keeps everything the lab builds, downloads and runs in one
// folder. What is built lies under store/, one folder per set of inputs; what
// runs lies under clusters/. Nothing here knows what a step makes, and no
// other package of the lab writes outside a cache.
package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Cache is the lab's folder on disk.
type Cache struct {
	root string
}

// Open returns the cache at root, making the folder where it is missing.
func Open(root string) (*Cache, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("resolve cache folder %s: %w", root, err)
	}
	for _, name := range []string{"", "store", "clusters", "tmp"} {
		if err := os.MkdirAll(filepath.Join(abs, name), 0o755); err != nil {
			return nil, fmt.Errorf("make cache folder: %w (choose another with --cache)", err)
		}
	}
	return &Cache{root: abs}, nil
}

// Path joins elements onto the cache's absolute folder.
func (c *Cache) Path(elem ...string) string {
	return filepath.Join(append([]string{c.root}, elem...)...)
}

// Cluster returns the state folder of the cluster called name. It need not
// exist.
func (c *Cache) Cluster(name string) string {
	return c.Path("clusters", name)
}

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

// AddFiles appends name and content of every regular file below fsys but those to
// leave out; nil leaves out none.
func (k *Key) AddFiles(fsys fs.FS, leaveOut func(path string) bool) error {
	return fs.WalkDir(fsys, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || leaveOut != nil && leaveOut(path) {
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
