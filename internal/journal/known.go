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

// known are the records that this process has read, so that a pod's start, which
// asks for them a dozen times, decodes each once. The files stay what counts: a
// record is taken from here only while its file is the very one that was read.
type known struct {
	mu      sync.Mutex
	records map[string]knownRecord // by path
}

// knownRecord is a record and the file that it was read from. A record's file is
// replaced and never written to (atomicfile), and this one stays open: the kernel
// gives its inode number to no other file meanwhile.
type knownRecord struct {
	file   *os.File
	info   fs.FileInfo
	record driver.Record
}

// get returns the record of a path if its file is still the one that was read.
func (k *known) get(path string) (driver.Record, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r, ok := k.records[path]
	if !ok {
		return driver.Record{}, false
	}
	now, err := os.Lstat(path)
	if err != nil || !os.SameFile(now, r.info) || now.Size() != r.info.Size() || !now.ModTime().Equal(r.info.ModTime()) {
		k.forget(path)
		return driver.Record{}, false
	}
	return copied(r.record), true
}

// put keeps a record, and its file open.
func (k *known) put(path string, file *os.File, info fs.FileInfo, r driver.Record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget(path)
	if k.records == nil {
		k.records = map[string]knownRecord{}
	}
	k.records[path] = knownRecord{file: file, info: info, record: copied(r)}
}

// drop forgets the records below a directory whose files are not among names.
func (k *known) drop(dir string, names []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for path := range k.records {
		if strings.HasPrefix(path, dir+string(filepath.Separator)) && !slices.Contains(names, filepath.Base(path)) {
			k.forget(path)
		}
	}
}

func (k *known) forget(path string) {
	if r, ok := k.records[path]; ok {
		_ = r.file.Close() // only read from
		delete(k.records, path)
	}
}

// copied lets a caller put other devices and pods into its record. What a device
// holds is replaced and never written to.
func copied(r driver.Record) driver.Record {
	r.Devices, r.Pods = slices.Clone(r.Devices), slices.Clone(r.Pods)
	return r
}
