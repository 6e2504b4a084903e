// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"errors"

	"golang.org/x/sys/unix"
)

// PrivateFlags are the flags that only this driver has; empty for most.
func (c *Conn) PrivateFlags(ifname string) (map[string]bool, error) {
	flags, err := ask(c, "read private flags", ifname, c.handle.PrivFlags)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return map[string]bool{}, nil
	}
	return flags, err
}

// SetPrivateFlags sets some private flags and reads them back. The error is an
// UnknownError where the driver lacks one, a NotAppliedError where it did not set
// one.
func (c *Conn) SetPrivateFlags(ifname string, want map[string]bool) error {
	have, err := c.PrivateFlags(ifname)
	if err != nil {
		return err
	}
	change, err := flagChange(have, want)
	if err != nil || len(change) == 0 {
		return err
	}
	_, err = ask(c, "set private flags", ifname, func(ifname string) (struct{}, error) {
		return struct{}{}, c.handle.UpdatePrivFlags(ifname, change)
	})
	if err != nil {
		return err
	}
	if have, err = c.PrivateFlags(ifname); err != nil {
		return err
	}
	change, err = flagChange(have, want)
	if err == nil && len(change) > 0 {
		err = &NotAppliedError{Interface: ifname, What: "private flag", Names: sortedKeys(change)}
	}
	return err
}

// flagChange are the wanted flags that differ.
func flagChange(have, want map[string]bool) (map[string]bool, error) {
	change := map[string]bool{}
	var unknown []string
	for _, name := range sortedKeys(want) {
		now, ok := have[name]
		switch {
		case !ok:
			unknown = append(unknown, name)
		case now != want[name]:
			change[name] = want[name]
		}
	}
	if len(unknown) > 0 {
		return nil, &UnknownError{What: "private flag", Names: unknown, Known: sortedKeys(have)}
	}
	return change, nil
}
