// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every command that starts a cluster to try plumbline on takes versions, and refuses
// those that the lab does not have before it makes so much as its cache folder.
func TestVersionFlags(t *testing.T) {
	for _, name := range []string{"build", "up", "demo", "install", "soak", "upgrade", "alarms", "observe"} {
		for flag, versions := range map[string]struct{ has, hasNot, complaint string }{
			"kubernetes": {"1.36", "1.35", "want 1.37, 1.36 or 1.34"},
			"containerd": {"2.2", "2.3", "want 2.4 or 2.2"},
		} {
			cmd, _, err := newRoot().Find([]string{name})
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.ParseFlags([]string{"--" + flag, versions.has}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if got := cmd.Flags().Lookup(flag).Value.String(); got != versions.has {
				t.Errorf("%s --%s %s is %q", name, flag, versions.has, got)
			}
			root, cache := newRoot(), filepath.Join(t.TempDir(), "cache")
			root.SetArgs([]string{name, "--cache", cache, "--" + flag, versions.hasNot})
			if err := root.Execute(); err == nil || !strings.Contains(err.Error(), versions.complaint) {
				t.Errorf("%s --%s %s: %v, want %q", name, flag, versions.hasNot, err, versions.complaint)
			}
			if _, err := os.Stat(cache); err == nil {
				t.Errorf("%s --%s %s made %s", name, flag, versions.hasNot, cache)
			}
		}
	}
}
