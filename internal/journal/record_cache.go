// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"plumbline.dev/plumbline/internal/driver"
)

// recordCache are the records that this process has read, so that a pod's start, which
// asks for them a dozen times, decodes each once. The files stay what counts: a
// record is taken from here only while its file is the very one that was read.
type recordCache struct {
	mu      sync.Mutex
	records map[string]cachedRecord // by path
}

// cachedRecord is a record and the file that it was read from. A record's file is
// replaced and never written to (atomicfile), and this one stays open: the kernel
// gives its inode number to no other file meanwhile.
type cachedRecord struct {
	file   *os.File
	info   fs.FileInfo
	record driver.Record
}

// get returns the record of a path if its file is still the one that was read.
func (c *recordCache) get(path string) (driver.Record, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.records[path]
	if !ok {
		return driver.Record{}, false
	}
	now, err := os.Lstat(path)
	if err != nil || !os.SameFile(now, r.info) || now.Size() != r.info.Size() || !now.ModTime().Equal(r.info.ModTime()) {
		c.forget(path)
		return driver.Record{}, false
	}
	return copied(r.record), true
}

// put keeps a record, and its file open.
func (c *recordCache) put(path string, file *os.File, info fs.FileInfo, r driver.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(path)
	if c.records == nil {
		c.records = map[string]cachedRecord{}
	}
	c.records[path] = cachedRecord{file: file, info: info, record: copied(r)}
}

// drop forgets the records below a directory whose files are not among names.
func (c *recordCache) drop(dir string, names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for path := range c.records {
		if strings.HasPrefix(path, dir+string(filepath.Separator)) && !slices.Contains(names, filepath.Base(path)) {
			c.forget(path)
		}
	}
}

func (c *recordCache) forget(path string) {
	if r, ok := c.records[path]; ok {
		_ = r.file.Close() // only read from
		delete(c.records, path)
	}
}

// copied lets a caller put other devices and pods into its record. What a device
// holds is replaced and never written to.
func copied(r driver.Record) driver.Record {
	r.Devices, r.Pods = slices.Clone(r.Devices), slices.Clone(r.Pods)
	return r
}
