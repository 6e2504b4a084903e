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
	"sync"

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
		if err := n.snapshotGroup(group, ifname, settings); err != nil {
			return err
		}
	}
	return nil
}

// snapshotGroup opens the files from their directory: the kernel looks each
// directory of a path up anew, and there are over a hundred files.
func (n Net) snapshotGroup(group, ifname string, settings Settings) error {
	dir, err := os.Open(filepath.Join(n.root, "net", group, ifname))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no IPv6 here
	}
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // only read from
	names, err := n.names.of(group, dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		// One that was never set cannot be read (ipv6/conf/stable_secret).
		if value, err := readAt(int(dir.Fd()), name); err == nil {
			settings[group+"/"+name] = value
		}
	}
	return nil
}

// names are the settings that can be written, by group: the kernel has the same of
// every interface (net/ipv4/devinet.c, net/ipv6/addrconf.c, net/core/neighbour.c),
// so that one is asked for all.
type names struct {
	mu    sync.Mutex
	group map[string][]string
}

func (n *names) of(group string, dir *os.File) ([]string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if known := n.group[group]; known != nil {
		return known, nil
	}
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	var writable []string
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().Perm()&0o200 != 0 {
			writable = append(writable, e.Name())
		}
	}
	if n.group == nil {
		n.group = map[string][]string{}
	}
	n.group[group] = writable
	return writable, nil
}

// Restore writes the settings that are not as wanted, and reads back what it
// wrote. It names those that are not there any more, and goes on after an error.
func (n Net) Restore(ifname string, want Settings) (lacks []string, err error) {
	var errs []error
	err = netns.Do(n.namespace, func() error {
		dirs := map[string]*os.File{}
		defer func() {
			for _, dir := range dirs {
				_ = dir.Close() // only read from
			}
		}()
		for _, key := range slices.SortedFunc(maps.Keys(want), order) {
			if n.isAs(dirs, ifname, key, want[key]) {
				continue
			}
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

// isAs reads before anything is written: few settings differ, a write may cost the
// kernel much, and some are two names for one value. dirs are open directories by
// path, which it adds to.
func (n Net) isAs(dirs map[string]*os.File, ifname, key, value string) bool {
	path, err := n.path(ifname, key)
	if err != nil {
		return false
	}
	parent, name := filepath.Split(path)
	dir := dirs[parent]
	if dir == nil {
		if dir, err = os.Open(parent); err != nil {
			return false
		}
		dirs[parent] = dir
	}
	now, err := readAt(int(dir.Fd()), name)
	return err == nil && now == value
}

func (n Net) restore(ifname, key, value string) error {
	path, err := n.path(ifname, key)
	if err != nil {
		return fmt.Errorf("write %s of interface %q: %w", key, ifname, err)
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
