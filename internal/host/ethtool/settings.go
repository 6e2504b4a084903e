// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Settings are what can be set of a device beside features and private flags, by a
// group and a name in it: rings.rx, link.autoneg. Numbers are decimal, sets and tables
// hexadecimal in the machine's byte order. The journal holds them: a name must never
// change its meaning.
type Settings map[string]string

// group is settings that are read together, and set together.
type group struct {
	name string
	// reported is true where some drivers report the state of the link instead of
	// the setting. What differs is set, and not compared afterwards.
	reported bool
	// aside tells whether a setting has no effect beside the others, so that it is
	// not compared; nil where each has.
	aside func(name string, all Settings) bool
	// read returns the settings by name.
	read func(k kernel, ifname string) (Settings, error)
	// write sets the named ones, which differ.
	write func(k kernel, ifname string, differ []string, want, have Settings) error
}

// settingGroups are in the order in which to set them: rules and the hash table before
// channels, since the kernel does not remove a queue that they use.
var settingGroups = slices.Concat([]group{ntupleGroup, hashGroup}, messageGroups, []group{fieldsGroup, timestampGroup})

// Settings reads all of a device that its driver supports.
func (c *Conn) Settings(ifname string) (Settings, error) {
	return ask(c, "read settings", ifname, func(ifname string) (Settings, error) {
		s, err := c.read(ifname, nil)
		for _, own := range notTheDrivers {
			if errors.Is(err, own) {
				return nil, err
			}
		}
		return s, nil
	})
}

// notTheDrivers are errors that do not mean that the driver lacks the setting. Taken
// for that, a setting that it has would not be restored.
var notTheDrivers = []error{unix.EAGAIN, unix.EINTR, unix.ENOBUFS, unix.ENOMEM, unix.EPERM, unix.EBADF}

// read reads the groups that like has any of; all with nil.
func (c *Conn) read(ifname string, like Settings) (Settings, error) {
	all := Settings{}
	var errs []error
	for _, g := range settingGroups {
		if like != nil && len(like.of(g.name)) == 0 {
			continue
		}
		some, err := g.read(c.kernel, ifname)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", g.name, err))
		}
		for name, value := range some {
			all[g.name+"."+name] = value
		}
	}
	return all, errors.Join(errs...)
}

// of are the settings of a group, by their names in it.
func (s Settings) of(group string) Settings {
	some := Settings{}
	for key, value := range s {
		if name, ok := strings.CutPrefix(key, group+"."); ok {
			some[name] = value
		}
	}
	return some
}

// RestoreSettings sets what is not as wanted, and reads it back. It goes on
// after an error, and repeats while that helps: one setting may keep another
// from being set. The error is a NotAppliedError where the driver acknowledges a setting
// and does not set it.
func (c *Conn) RestoreSettings(ifname string, want Settings) error {
	if len(want) == 0 {
		return nil
	}
	_, err := ask(c, "restore settings", ifname, func(ifname string) (struct{}, error) {
		return struct{}{}, c.restore(ifname, want)
	})
	return err
}

func (c *Conn) restore(ifname string, want Settings) error {
	have, unread := c.read(ifname, want)
	reported := c.write(ifname, differences(want, have, true), want, have)
	var failed error
	for before := len(want) + 1; ; {
		differ := keys(differences(want, have, false))
		switch {
		case len(differ) == 0:
			return reported
		case len(differ) >= before && failed != nil:
			return errors.Join(failed, reported)
		case len(differ) >= before:
			return errors.Join(unread, reported, &NotAppliedError{Interface: ifname, What: "setting", Names: differ})
		}
		before = len(differ)
		failed = c.write(ifname, differences(want, have, false), want, have)
		have, unread = c.read(ifname, want)
	}
}

// write sets what differs, by group.
func (c *Conn) write(ifname string, differ map[string][]string, want, have Settings) error {
	// A table that a pod set keeps channels from changing, even if it is equal to
	// the kernel's default.
	if hash := differ["hash"]; len(differ["channels"]) > 0 && want["hash.table"] == defaultTable && !slices.Contains(hash, "table") {
		differ["hash"] = append(hash, "table")
	}
	var errs []error
	for _, g := range settingGroups {
		if len(differ[g.name]) == 0 {
			continue
		}
		err := g.write(c.kernel, ifname, differ[g.name], want.of(g.name), have.of(g.name))
		// A driver that refuses what it reported had reported the state of the link.
		if g.reported && (errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL)) {
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", g.name, err))
		}
	}
	return errors.Join(errs...)
}

// differences are the names of what differs, by group, sorted: of the groups that are
// reported, or of the others.
func differences(want, have Settings, reported bool) map[string][]string {
	differ := map[string][]string{}
	for key, value := range want {
		if have[key] == value {
			continue
		}
		name, rest, _ := strings.Cut(key, ".")
		g := groupNamed(name) // nil for one of another version of this program
		if g == nil || g.reported != reported || g.aside != nil && g.aside(rest, want.of(name)) {
			continue
		}
		differ[name] = append(differ[name], rest)
	}
	for _, names := range differ {
		slices.Sort(names)
	}
	return differ
}

// SettingGroups are the groups of Settings.
func SettingGroups() []string {
	var names []string
	for _, g := range settingGroups {
		names = append(names, g.name)
	}
	return names
}

func groupNamed(name string) *group {
	i := slices.IndexFunc(settingGroups, func(g group) bool { return g.name == name })
	if i < 0 {
		return nil
	}
	return &settingGroups[i]
}

// keys are all of them, sorted.
func keys(differ map[string][]string) []string {
	var list []string
	for group, names := range differ {
		for _, name := range names {
			list = append(list, group+"."+name)
		}
	}
	slices.Sort(list)
	return list
}

// groups are the short and long names of ethtool(8) for what were single flags
// once, and the kernel's features that they stand for.
var groups = map[string]string{
	"rx":                           "rx-checksum",
	"rx-checksumming":              "rx-checksum",
	"tx":                           "tx-checksum-*",
	"tx-checksumming":              "tx-checksum-*",
	"sg":                           "tx-scatter-gather*",
	"scatter-gather":               "tx-scatter-gather*",
	"tso":                          "tx-tcp*-segmentation",
	"tcp-segmentation-offload":     "tx-tcp*-segmentation",
	"ufo":                          "tx-udp-fragmentation",
	"udp-fragmentation-offload":    "tx-udp-fragmentation",
	"gso":                          "tx-generic-segmentation",
	"generic-segmentation-offload": "tx-generic-segmentation",
	"gro":                          "rx-gro",
	"generic-receive-offload":      "rx-gro",
	"lro":                          "rx-lro",
	"large-receive-offload":        "rx-lro",
	"rxvlan":                       "rx-vlan-hw-parse",
	"rx-vlan-offload":              "rx-vlan-hw-parse",
	"txvlan":                       "tx-vlan-hw-insert",
	"tx-vlan-offload":              "tx-vlan-hw-insert",
	"ntuple":                       "rx-ntuple-filter",
	"ntuple-filters":               "rx-ntuple-filter",
	"rxhash":                       "rx-hashing",
	"receive-hashing":              "rx-hashing",
}

// matches compares a name with a pattern of at most one star.
func matches(pattern, name string) bool {
	before, after, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	return len(name) >= len(before)+len(after) && strings.HasPrefix(name, before) && strings.HasSuffix(name, after)
}

func sortedKeys[M ~map[string]V, V any](m M) []string { return slices.Sorted(maps.Keys(m)) }
