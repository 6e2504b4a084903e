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
//
// Digest is the ConfDigest of its link (host/rtnl): the settings that it covers are
// cached for all interfaces with the same. Now reads the digest once more, when it is
// not cached. With an empty digest all is read from files, and now is not called.
func (n Net) Snapshot(ifname, digest string, now func() (string, error)) (Settings, error) {
	settings, err := n.snapshot(ifname, digest, now)
	if err != nil {
		return nil, fmt.Errorf("read settings of interface %q: %w", ifname, err)
	}
	return settings, nil
}

func (n Net) snapshot(ifname, digest string, now func() (string, error)) (Settings, error) {
	if err := checkInterface(ifname); err != nil {
		return nil, err
	}
	conf := n.confCache.of(digest)
	settings, _, err := n.read(ifname, func(s setting) bool { return conf == nil || !s.listed })
	if err != nil {
		return nil, err
	}
	if conf == nil && digest != "" {
		return settings, n.remember(ifname, digest, now, settings)
	}
	maps.Copy(settings, conf)
	return settings, nil
}

// read reads those settings of an interface that are wanted. Whole is true when it
// could read them all.
func (n Net) read(ifname string, wanted func(setting) bool) (settings Settings, whole bool, err error) {
	settings, whole = Settings{}, true
	err = netns.Do(n.namespace, func() error {
		for _, group := range groups {
			all, err := n.readGroup(group, ifname, wanted, settings)
			if err != nil {
				return err
			}
			whole = whole && all
		}
		return nil
	})
	return settings, whole, err
}

// readGroup opens the files relative to their directory, since there are over a hundred,
// and the kernel would resolve the whole path for each.
func (n Net) readGroup(group, ifname string, wanted func(setting) bool, settings Settings) (whole bool, err error) {
	dir, err := os.Open(filepath.Join(n.root, "net", group, ifname))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil // no IPv6 here
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = dir.Close() }() // only read from
	list, err := n.names.of(group, dir)
	if err != nil {
		return false, err
	}
	whole = true
	for _, s := range list {
		if !wanted(s) {
			continue
		}
		value, err := readAt(int(dir.Fd()), s.name)
		if err != nil {
			whole = false // ipv6/conf/stable_secret cannot be read before it is set
			continue
		}
		settings[s.key] = value
	}
	return whole, nil
}

// setting is a file of every interface.
type setting struct {
	name, key string
	// listed is true where a link's message lists it.
	listed bool
}

// names are the settings that can be written, by group. They are the same for every
// interface (net/ipv4/devinet.c, net/ipv6/addrconf.c, net/core/neighbour.c), and are
// listed once.
type names struct {
	mu    sync.Mutex
	group map[string][]setting
}

func (n *names) of(group string, dir *os.File) ([]setting, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if known := n.group[group]; known != nil {
		return known, nil
	}
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	var writable []setting
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().Perm()&0o200 != 0 {
			key := group + "/" + e.Name()
			writable = append(writable, setting{name: e.Name(), key: key, listed: isListed(key)})
		}
	}
	if n.group == nil {
		n.group = map[string][]setting{}
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

// isAs reads a setting before it is written: few differ, a write may be expensive in
// the kernel, and some are two names for one value. dirs caches open directories by
// path.
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

// order puts disable_ipv6 first, which creates or removes all of IPv6. The rest is
// alphabetical: of two names for one value, the one of coarse unit comes before the one
// of fine unit (base_reachable_time, _ms; unres_qlen, _bytes).
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
