// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"plumbline.dev/plumbline/internal/atomicfile"
	"plumbline.dev/plumbline/internal/driver"
)

const (
	recordSuffix = ".json"
	lockSuffix   = ".lock"
)

// Journal is a directory of records. Several processes may use one directory
// at the same time.
type Journal struct {
	dir   string
	cache recordCache
}

// Open makes the directory where it is missing, and removes what interrupted
// writes of earlier processes left behind.
func Open(dir string) (*Journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	j := &Journal{dir: dir}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() || checkDriver(e.Name()) != nil {
			continue
		}
		if err := j.clean(e.Name()); err != nil {
			return nil, fmt.Errorf("open journal: %w", err)
		}
	}
	return j, nil
}

// clean removes unfinished writes. It holds the writers' lock, so that it
// cannot take a file away from a write that is still going on.
func (j *Journal) clean(driverName string) error {
	unlock, err := j.lockWrites(driverName)
	if err != nil {
		return err
	}
	defer unlock()
	dir := filepath.Join(j.dir, driverName)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !strings.HasSuffix(e.Name(), atomicfile.Suffix) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// checkUID refuses what must not become a file name. The API server's UIDs are
// random UUIDs, but a claim's text is input like any other.
func checkUID(uid types.UID) error {
	if isName(string(uid), "-") {
		return nil
	}
	return fmt.Errorf("claim UID %q: want 1-63 lower-case letters, digits and '-', beginning with a letter or digit", uid)
}

// checkDriver refuses names that are no DRA driver's (a DNS subdomain of at
// most 63 characters, k8s.io/api/resource/v1).
func checkDriver(name string) error {
	if isName(name, "-.") && !strings.HasSuffix(name, lockSuffix) {
		return nil
	}
	return fmt.Errorf("driver name %q: want 1-63 lower-case letters, digits, '-' and '.', beginning with a letter or digit", name)
}

func isName(s, alsoAllowed string) bool {
	if s == "" || len(s) > 63 {
		return false
	}
	for i, r := range s {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
		case i > 0 && strings.ContainsRune(alsoAllowed, r):
		default:
			return false
		}
	}
	return true
}

func (j *Journal) path(driverName string, uid types.UID) (string, error) {
	if err := checkDriver(driverName); err != nil {
		return "", err
	}
	if err := checkUID(uid); err != nil {
		return "", err
	}
	return filepath.Join(j.dir, driverName, string(uid)+recordSuffix), nil
}

// check refuses a record that no reader would accept.
func check(r driver.Record) error {
	if r.Version > driver.NewestRecordVersion {
		return fmt.Errorf("record version %d is newer than version %d, the newest this build knows: "+
			"run the build that wrote it, or a newer one", r.Version, driver.NewestRecordVersion)
	}
	if r.Version < 1 {
		return fmt.Errorf("record version %d: want 1 to %d", r.Version, driver.NewestRecordVersion)
	}
	if err := checkDriver(r.Driver); err != nil {
		return err
	}
	return checkUID(r.Claim.UID)
}
