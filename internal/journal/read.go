// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"plumbline.dev/plumbline/internal/atomicfile"
	"plumbline.dev/plumbline/internal/driver"
)

// maxRecordBytes bounds what is read of one file. A record of 64 devices has
// some 200 KB.
const maxRecordBytes = 8 << 20

// Problem is a file in the journal that could not be read as a record. It is
// kept as it is: it may be all that is left to undo a claim by hand.
type Problem struct {
	// Path is the file.
	Path string
	// Err says what is wrong with it.
	Err error
}

// Error is "path: what is wrong".
func (p Problem) Error() string { return p.Path + ": " + p.Err.Error() }

// Unwrap is the reason.
func (p Problem) Unwrap() error { return p.Err }

// Get reads one record. The error is fs.ErrNotExist when there is none, and a
// Problem when it cannot be read.
func (j *Journal) Get(driverName string, uid types.UID) (driver.Record, error) {
	path, err := j.path(driverName, uid)
	if err != nil {
		return driver.Record{}, fmt.Errorf("read journal record: %w", err)
	}
	r, err := j.read(path, driverName, uid)
	if errors.Is(err, fs.ErrNotExist) {
		return driver.Record{}, fmt.Errorf("read journal record of claim %s: %w", uid, fs.ErrNotExist)
	}
	if err != nil {
		return driver.Record{}, Problem{Path: path, Err: err}
	}
	return r, nil
}

// List reads the records of a driver in the order of their UIDs, and names the
// files that are none. The error is for the directory itself.
func (j *Journal) List(driverName string) ([]driver.Record, []Problem, error) {
	if err := checkDriver(driverName); err != nil {
		return nil, nil, fmt.Errorf("list journal: %w", err)
	}
	dir := filepath.Join(j.dir, driverName)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list journal: %w", err)
	}
	var records []driver.Record
	var problems []Problem
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	j.cache.drop(dir, names)
	for _, name := range names {
		if strings.HasSuffix(name, atomicfile.Suffix) {
			continue // a write that goes on or was interrupted: never a record
		}
		path := filepath.Join(dir, name)
		r, err := j.readEntry(path, name, driverName)
		switch {
		case errors.Is(err, fs.ErrNotExist): // deleted since the listing
		case err != nil:
			problems = append(problems, Problem{Path: path, Err: err})
		default:
			records = append(records, r)
		}
	}
	return records, problems, nil
}

func (j *Journal) readEntry(path, name, driverName string) (driver.Record, error) {
	uid, ok := strings.CutSuffix(name, recordSuffix)
	if !ok {
		return driver.Record{}, fmt.Errorf("not a journal file: want <claim UID>%s", recordSuffix)
	}
	if err := checkUID(types.UID(uid)); err != nil {
		return driver.Record{}, err
	}
	return j.read(path, driverName, types.UID(uid))
}

func (j *Journal) read(path, driverName string, uid types.UID) (driver.Record, error) {
	if r, ok := j.cache.get(path); ok {
		return r, nil
	}
	// NONBLOCK so that a fifo in the directory cannot hold the agent up.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return driver.Record{}, err
	}
	r, info, err := readFrom(f)
	if err == nil && (r.Driver != driverName || r.Claim.UID != uid) {
		err = fmt.Errorf("the file's name says claim %s of %s, its content claim %s of %s", uid, driverName, r.Claim.UID, r.Driver)
	}
	if err != nil {
		_ = f.Close() // only read from
		return driver.Record{}, err
	}
	j.cache.put(path, f, info, r)
	return r, nil
}

func readFrom(f *os.File) (driver.Record, fs.FileInfo, error) {
	info, err := f.Stat()
	if err != nil {
		return driver.Record{}, nil, err
	}
	if !info.Mode().IsRegular() {
		return driver.Record{}, nil, errors.New("not a regular file")
	}
	text, err := io.ReadAll(io.LimitReader(f, maxRecordBytes+1))
	if err != nil {
		return driver.Record{}, nil, err
	}
	if len(text) > maxRecordBytes {
		return driver.Record{}, nil, fmt.Errorf("larger than %d bytes", maxRecordBytes)
	}
	r, err := Decode(text)
	return r, info, err
}

// Decode reads one record of this version or an older one. Fields it does not
// know are left out: the next version may add some without changing the
// meaning of the rest.
func Decode(text []byte) (driver.Record, error) {
	var r driver.Record
	err := json.Unmarshal(text, &r)
	if err == nil {
		return r, check(r)
	}
	// What the rest of a newer record looks like is not known.
	var header struct {
		Version int `json:"version"`
	}
	if json.Unmarshal(text, &header) == nil && header.Version > driver.NewestRecordVersion {
		return driver.Record{}, check(driver.Record{Version: header.Version})
	}
	return driver.Record{}, fmt.Errorf("decode record: %w", err)
}
