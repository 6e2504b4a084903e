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

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/wholefile"
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
	r, err := read(path, driverName, uid)
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
	for _, e := range entries {
		name := e.Name()
		if strings.HasSuffix(name, wholefile.Suffix) {
			continue // a write that goes on or was interrupted: never a record
		}
		path := filepath.Join(dir, name)
		r, err := readEntry(path, name, driverName)
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

func readEntry(path, name, driverName string) (driver.Record, error) {
	uid, ok := strings.CutSuffix(name, recordSuffix)
	if !ok {
		return driver.Record{}, fmt.Errorf("not a journal file: want <claim UID>%s", recordSuffix)
	}
	if err := checkUID(types.UID(uid)); err != nil {
		return driver.Record{}, err
	}
	return read(path, driverName, types.UID(uid))
}

func read(path, driverName string, uid types.UID) (driver.Record, error) {
	// NONBLOCK so that a fifo in the directory cannot hold the agent up.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return driver.Record{}, err
	}
	defer func() { _ = f.Close() }() // only read from
	info, err := f.Stat()
	if err != nil {
		return driver.Record{}, err
	}
	if !info.Mode().IsRegular() {
		return driver.Record{}, errors.New("not a regular file")
	}
	text, err := io.ReadAll(io.LimitReader(f, maxRecordBytes+1))
	if err != nil {
		return driver.Record{}, err
	}
	if len(text) > maxRecordBytes {
		return driver.Record{}, fmt.Errorf("larger than %d bytes", maxRecordBytes)
	}
	r, err := Decode(text)
	if err != nil {
		return driver.Record{}, err
	}
	if r.Driver != driverName || r.Claim.UID != uid {
		return driver.Record{}, fmt.Errorf("the file's name says claim %s of %s, its content claim %s of %s",
			uid, driverName, r.Claim.UID, r.Driver)
	}
	return r, nil
}

// Decode reads one record of this version or an older one. Fields it does not
// know are left out: the next version may add some without changing the
// meaning of the rest.
func Decode(text []byte) (driver.Record, error) {
	// The version first: what the rest of a newer record looks like is not
	// known.
	var header struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(text, &header); err != nil {
		return driver.Record{}, fmt.Errorf("decode record: %w", err)
	}
	if header.Version > driver.RecordVersion {
		return driver.Record{}, check(driver.Record{Version: header.Version})
	}
	var r driver.Record
	if err := json.Unmarshal(text, &r); err != nil {
		return driver.Record{}, fmt.Errorf("decode record: %w", err)
	}
	return r, check(r)
}
