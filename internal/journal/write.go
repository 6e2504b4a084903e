// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"

	"plumbline.dev/plumbline/internal/atomicfile"
	"plumbline.dev/plumbline/internal/driver"
)

// Put writes a record, replacing one of the same driver and claim. When it
// returns without an error the record outlives a crash and a power cut.
func (j *Journal) Put(r driver.Record) error {
	if err := j.put(r); err != nil {
		return fmt.Errorf("journal claim %s of %s: %w", r.Claim, r.Driver, err)
	}
	return nil
}

func (j *Journal) put(r driver.Record) error {
	if err := check(r); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if len(text) >= maxRecordBytes {
		return fmt.Errorf("the record has %d bytes, more than the %d that are read back", len(text), maxRecordBytes)
	}
	path, err := j.path(r.Driver, r.Claim.UID)
	if err != nil {
		return err
	}
	if err := j.makeDriverDir(r.Driver); err != nil {
		return err
	}
	// Held over the write, so that Open never removes an unfinished file that is
	// in use.
	unlock, err := j.lockWrites(r.Driver)
	if err != nil {
		return err
	}
	defer unlock()
	return atomicfile.Write(path, 0o600, bytes.NewReader(append(text, '\n')))
}

// Delete removes a record, readable or not. It is no error when there is none.
func (j *Journal) Delete(driverName string, uid types.UID) error {
	path, err := j.path(driverName, uid)
	if err != nil {
		return fmt.Errorf("delete journal record: %w", err)
	}
	err = os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = atomicfile.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("delete journal record of claim %s: %w", uid, err)
	}
	return nil
}

func (j *Journal) makeDriverDir(driverName string) error {
	err := os.Mkdir(filepath.Join(j.dir, driverName), 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return atomicfile.SyncDir(j.dir)
}
