// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cdi

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	cdilib "tags.cncf.io/container-device-interface/pkg/cdi"

	"plumbline.dev/plumbline/internal/driver"
)

// Dir is a directory of CDI specs, such as /var/run/cdi. Others write there
// too.
type Dir struct {
	path  string
	cache *cdilib.Cache
}

// Open makes the directory where it is missing.
func Open(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("open CDI directory: %w", err)
	}
	// Only writing is asked of the cache; reading specs is the runtime's.
	cache, err := cdilib.NewCache(cdilib.WithSpecDirs(path), cdilib.WithAutoRefresh(false))
	if err != nil {
		return nil, fmt.Errorf("open CDI directory %s: %w", path, err)
	}
	return &Dir{path: path, cache: cache}, nil
}

// Write puts the spec of a record and of the hooks of all its devices in place,
// whole or not at all. Repeating it changes nothing.
func (d *Dir) Write(r driver.Record, hooks ...driver.Hook) error {
	s, err := Spec(r, hooks...)
	if err != nil {
		return err
	}
	if err := d.cache.WriteSpec(s, fileName(r.Driver, r.Claim.UID)); err != nil {
		return fmt.Errorf("write CDI spec of claim %s: %w", r.Claim, err)
	}
	return nil
}

// Remove takes a claim's spec away. It is no error when there is none.
func (d *Dir) Remove(driverName string, uid types.UID) error {
	err := os.Remove(d.File(driverName, uid))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove CDI spec: %w", err)
	}
	return nil
}

// Claims lists the claims that have a spec of the driver.
func (d *Dir) Claims(driverName string) ([]types.UID, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, fmt.Errorf("list CDI specs: %w", err)
	}
	before, after, _ := strings.Cut(fileName(driverName, "*"), "*")
	var uids []types.UID
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.Name(), before)
		if !ok {
			continue
		}
		if uid, ok := strings.CutSuffix(name, after); ok {
			uids = append(uids, types.UID(uid))
		}
	}
	return uids, nil
}

// Written lists those of Claims whose spec this package wrote: other servers of a driver
// give their files the same names.
func (d *Dir) Written(driverName string) ([]types.UID, error) {
	all, err := d.Claims(driverName)
	if err != nil {
		return nil, err
	}
	var ours []types.UID
	for _, uid := range all {
		text, err := os.ReadFile(d.File(driverName, uid))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read CDI spec: %w", err)
		}
		if bytes.Contains(text, []byte(markerPrefix)) {
			ours = append(ours, uid)
		}
	}
	return ours, nil
}

// File is the path of the spec of a driver for a claim, be it there or not.
func (d *Dir) File(driverName string, uid types.UID) string {
	return filepath.Join(d.path, fileName(driverName, uid))
}

func fileName(driverName string, uid types.UID) string {
	vendor, class := kind(driverName)
	return cdilib.GenerateTransientSpecName(vendor, class, string(uid)) + ".json"
}
