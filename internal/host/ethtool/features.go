// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Feature is an offload feature of an interface.
type Feature struct {
	// Name is the kernel's, such as tx-tcp-segmentation.
	Name string `json:"name"`
	// Active is the present state, Requested the wanted one: they differ while
	// another feature keeps this one off.
	Active    bool `json:"active"`
	Requested bool `json:"requested"`
	// Fixed is true for one that cannot be changed.
	Fixed bool `json:"fixed,omitempty"`
}

// Features lists the features of an interface, by name.
func (c *Conn) Features(ifname string) ([]Feature, error) {
	return ask(c, "read features", ifname, func(ifname string) ([]Feature, error) {
		names, err := c.featureNames(ifname)
		if err != nil {
			return nil, err
		}
		bits := newFeatureBits(len(names))
		if err := c.kernel.ioctl(unix.SIOCETHTOOL, ifname, bits); err != nil {
			return nil, err
		}
		return bits.features(names), nil
	})
}

// featureNames are the kernel's, by bit. They are the same for all interfaces
// (net/ethtool/common.c, netdev_features_strings), and are read once.
func (c *Conn) featureNames(ifname string) ([]string, error) {
	if known := c.names.Load(); known != nil {
		return *known, nil
	}
	bits, err := c.handle.FeatureNames(ifname)
	if err != nil {
		return nil, err
	}
	var names []string
	for name, bit := range bits {
		names = append(names, make([]string, max(0, int(bit)+1-len(names)))...)
		names[bit] = name
	}
	c.names.Store(&names)
	return names, nil
}

// featureBits is struct ethtool_gfeatures: the command, the number of blocks, and in
// each a word of what is available, requested, active and never changed.
type featureBits []byte

const featureBlocks, featureBlockLen = 8, 16

func newFeatureBits(features int) featureBits {
	blocks := (features + 31) / 32
	b := make(featureBits, featureBlocks+blocks*featureBlockLen)
	binary.NativeEndian.PutUint32(b, unix.ETHTOOL_GFEATURES)
	binary.NativeEndian.PutUint32(b[4:], uint32(blocks))
	return b
}

// features are those that have a name.
func (b featureBits) features(names []string) []Feature {
	list := make([]Feature, 0, len(names))
	for bit, name := range names {
		if name == "" {
			continue
		}
		block := b[featureBlocks+bit/32*featureBlockLen:]
		is := func(word int) bool { return binary.NativeEndian.Uint32(block[4*word:])>>(bit%32)&1 == 1 }
		available, requested, active, neverChanged := is(0), is(1), is(2), is(3)
		list = append(list, Feature{Name: name, Active: active, Requested: requested, Fixed: !available || neverChanged})
	}
	slices.SortFunc(list, func(a, b Feature) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Snapshot are the requested features, for RestoreFeatures.
func Snapshot(have []Feature) map[string]bool {
	settings := map[string]bool{}
	for _, f := range have {
		if !f.Fixed {
			settings[f.Name] = f.Requested
		}
	}
	return settings
}

// SetFeatures sets features by the kernel's names, as Expand returns them. The error
// is a NotAppliedError where they are not active afterwards.
func (c *Conn) SetFeatures(ifname string, want map[string]bool) error {
	return c.setFeatures(ifname, want, func(f Feature) bool { return f.Active })
}

// RestoreFeatures requests the features that Snapshot read.
func (c *Conn) RestoreFeatures(ifname string, want map[string]bool) error {
	return c.setFeatures(ifname, want, func(f Feature) bool { return f.Requested })
}

func (c *Conn) setFeatures(ifname string, want map[string]bool, is func(Feature) bool) error {
	have, err := c.Features(ifname)
	if err != nil {
		return err
	}
	// Only what differs: a driver may reset its device even for a request that
	// changes nothing.
	different := differ(have, want, is)
	if len(different) == 0 {
		return nil
	}
	change := map[string]bool{}
	for _, name := range different {
		change[name] = want[name]
	}
	_, err = ask(c, "set features", ifname, func(ifname string) (struct{}, error) {
		return struct{}{}, c.handle.Change(ifname, change)
	})
	if err != nil {
		return err
	}
	if have, err = c.Features(ifname); err != nil {
		return err
	}
	if different = differ(have, want, is); len(different) > 0 {
		return &NotAppliedError{Interface: ifname, What: "feature", Names: different}
	}
	return nil
}

// differ are the names of what is not as wanted, sorted.
func differ(have []Feature, want map[string]bool, is func(Feature) bool) []string {
	var names []string
	for name, on := range want {
		i := slices.IndexFunc(have, func(f Feature) bool { return f.Name == name })
		if i < 0 || is(have[i]) != on {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Expand turns features as ethtool(8) takes them, short and long names for
// groups among them, into the kernel's names of this device. What is fixed and
// as wanted is left out. A feature named by itself overrides its group. The error is an
// UnknownError or a FixedError.
func Expand(want map[string]bool, have []Feature) (map[string]bool, error) {
	e := expansion{have: have, set: map[string]bool{}, by: map[string]string{}}
	for _, name := range sortedKeys(want) {
		if pattern, ok := groups[name]; ok {
			if err := e.group(name, pattern, want[name]); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range sortedKeys(want) {
		if _, ok := groups[name]; !ok {
			e.one(name, want[name])
		}
	}
	switch {
	case len(e.unknown) > 0:
		return nil, &UnknownError{What: "feature", Names: e.unknown, Known: names(have)}
	case len(e.fixed) > 0:
		return nil, &FixedError{Names: e.fixed}
	}
	return e.set, nil
}

type expansion struct {
	have           []Feature
	set            map[string]bool
	by             map[string]string // which group set it
	unknown, fixed []string
}

// group sets those of a group that can be changed; a group without any counts as
// fixed.
func (e *expansion) group(name, pattern string, on bool) error {
	present, settable, satisfied := false, false, true
	for _, f := range e.have {
		if !matches(pattern, f.Name) {
			continue
		}
		present = true
		satisfied = satisfied && f.Active == on
		if f.Fixed {
			continue
		}
		settable = true
		if other, ok := e.by[f.Name]; ok && e.set[f.Name] != on {
			return fmt.Errorf("features %q and %q are two names for one, and ask for opposites", other, name)
		}
		e.set[f.Name], e.by[f.Name] = on, name
	}
	switch {
	case !present:
		e.unknown = append(e.unknown, name)
	case !settable && !satisfied:
		e.fixed = append(e.fixed, name)
	}
	return nil
}

func (e *expansion) one(name string, on bool) {
	i := slices.IndexFunc(e.have, func(f Feature) bool { return f.Name == name })
	switch {
	case i < 0:
		e.unknown = append(e.unknown, name)
	case !e.have[i].Fixed:
		e.set[name] = on
	case e.have[i].Active != on:
		e.fixed = append(e.fixed, name)
	}
}

func names(have []Feature) []string {
	list := make([]string, len(have))
	for i, f := range have {
		list[i] = f.Name
	}
	return list
}
