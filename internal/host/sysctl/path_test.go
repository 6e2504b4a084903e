// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysctl

import (
	"slices"
	"strings"
	"testing"
)

// Whatever the names are, a path is that of a setting of one interface.
func FuzzPath(f *testing.F) {
	f.Add("nic0", "ipv4/conf/arp_ignore")
	f.Add("..", "ipv4/conf/..")
	f.Add("nic.0", "ipv4/conf/../../../kernel/hostname")
	f.Fuzz(func(t *testing.T, ifname, key string) {
		path, err := New("/root", 0).path(ifname, key)
		if err != nil {
			return
		}
		parts := strings.Split(path, "/")
		if len(parts) != 7 || !slices.Equal(parts[:3], []string{"", "root", "net"}) ||
			!slices.Contains(groups, parts[3]+"/"+parts[4]) || parts[5] != ifname || parts[5] == "all" {
			t.Errorf("interface %q and key %q lead to %s", ifname, key, path)
		}
	})
}
