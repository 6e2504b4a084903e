// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysctl

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"plumbline.dev/plumbline/internal/host/netns"
)

// Settings are settings of one interface by key, such as ipv4/conf/arp_ignore.
type Settings map[string]string

// Snapshot reads all settings of an interface that can be written, for Restore.
func (n Net) Snapshot(ifname string) (Settings, error) {
	settings := Settings{}
	err := checkInterface(ifname)
	if err == nil {
		err = netns.Do(n.namespace, func() error { return n.snapshot(ifname, settings) })
	}
	if err != nil {
		return nil, fmt.Errorf("read settings of interface %q: %w", ifname, err)
	}
	return settings, nil
}

func (n Net) snapshot(ifname string, settings Settings) error {
	for _, group := range groups {
		dir := filepath.Join(n.root, "net", group, ifname)
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue // no IPv6 here
		}
		if err != nil {
			return err
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil || info.Mode().Perm()&0o200 == 0 {
				continue
			}
			// One that was never set cannot be read (ipv6/conf/stable_secret).
			if value, err := read(filepath.Join(dir, e.Name())); err == nil {
				settings[group+"/"+e.Name()] = value
			}
		}
	}
	return nil
}

// Restore writes the settings that are not as wanted, and reads back what it
// wrote. It names those that are not there any more, and goes on after an error.
func (n Net) Restore(ifname string, want Settings) (lacks []string, err error) {
	var errs []error
	err = netns.Do(n.namespace, func() error {
		for _, key := range slices.SortedFunc(maps.Keys(want), order) {
			err := n.restore(ifname, key, want[key])
			switch {
			case errors.Is(err, ErrLacks):
				lacks = append(lacks, key)
			default:
				errs = append(errs, err)
			}
		}
		return nil
	})
	slices.Sort(lacks)
	return lacks, errors.Join(append(errs, err)...)
}

// restore reads before it writes: few settings differ, a write may cost the
// kernel much, and some are two names for one value.
func (n Net) restore(ifname, key, value string) error {
	path, err := n.path(ifname, key)
	if err != nil {
		return fmt.Errorf("write %s of interface %q: %w", key, ifname, err)
	}
	if now, err := read(path); err == nil && now == value {
		return nil
	}
	return write(path, ifname, key, value)
}

// order is alphabetical, which has the coarse one of two names for a value
// before the fine one (base_reachable_time, _ms; unres_qlen, _bytes), after the
// switch that makes or ends all of IPv6.
func order(a, b string) int {
	const first = "ipv6/conf/disable_ipv6"
	switch {
	case a == b:
		return 0
	case a == first || b != first && a < b:
		return -1
	}
	return 1
}
