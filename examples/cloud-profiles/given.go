// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
)

// given is who has which address, on disk before anybody is told.
type given struct {
	path string
	by   map[string]netip.Prefix
}

func openGiven(path string) (*given, error) {
	g := &given{path: path, by: map[string]netip.Prefix{}}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return g, os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &g.by); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return g, nil
}

// take gives a holder the first address that nobody has, and the same when it asks again.
func (g *given) take(holder string, candidates []netip.Prefix) (netip.Prefix, error) {
	if a, has := g.by[holder]; has {
		return a, nil
	}
	used := map[netip.Addr]bool{}
	for _, a := range g.by {
		used[a.Addr()] = true
	}
	for _, a := range candidates {
		if used[a.Addr()] {
			continue
		}
		g.by[holder] = a
		if err := g.write(); err != nil {
			delete(g.by, holder)
			return netip.Prefix{}, err
		}
		return a, nil
	}
	return netip.Prefix{}, fmt.Errorf("all %d addresses are in use", len(candidates))
}

// giveBack ends what a holder has, if it has something.
func (g *given) giveBack(holder string) error {
	a, has := g.by[holder]
	if !has {
		return nil
	}
	delete(g.by, holder)
	err := g.write()
	if err != nil {
		g.by[holder] = a
	}
	return err
}

// write replaces the file as a whole: half a file would lose what pods have.
func (g *given) write() error {
	text, err := json.MarshalIndent(g.by, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(g.path), ".given-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // not there after the rename
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), g.path)
}
