// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package cache keeps everything the lab builds, downloads and runs in one
// folder. What is built lies under store/, one folder per set of inputs; what
// runs lies under clusters/. Nothing here knows what a step makes, and no
// other package of the lab writes outside a cache.
package cache

import (
	"fmt"
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
