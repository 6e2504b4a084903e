// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plumbline.dev/plumbline/lab/build"
	"plumbline.dev/plumbline/lab/cache"
	"plumbline.dev/plumbline/lab/controlplane"
	"plumbline.dev/plumbline/lab/daemon"
)

// controlPlaneRuns lets this very process stand for every part of a control plane.
func controlPlaneRuns(t *testing.T, c *Cluster) {
	t.Helper()
	id, err := daemon.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(c.dir, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range controlplane.Names() {
		if err := id.Write(filepath.Join(c.dir, "run", name+".pid")); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(c.dir, "ports.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// nodeRuns does the same for a node on this host.
func nodeRuns(t *testing.T, c *Cluster) {
	t.Helper()
	id, err := daemon.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(c.dir, "host-node")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := id.Write(filepath.Join(dir, "host-node.pid")); err != nil {
		t.Fatal(err)
	}
}

// A cluster of which anything runs keeps its versions: nobody may get a control plane of
// one and a node of another, or lose the kubectl that fits.
func TestVersionsOfWhatRuns(t *testing.T) {
	older := build.Versions{Kubernetes: "1.36"}
	for name, tt := range map[string]struct {
		noted  *build.Versions
		runs   func(*testing.T, *Cluster)
		wanted build.Versions
		ok     bool
	}{
		"nothing was ever up":                    {nil, nil, older, true},
		"others are left from a start that died": {&build.Versions{}, nil, older, true},
		"the same run":                           {&older, controlPlaneRuns, older, true},
		"the same run, said in full":             {&older, controlPlaneRuns, build.Versions{Kubernetes: "1.36", Containerd: "2.4"}, true},
		"the newest run":                         {&build.Versions{}, controlPlaneRuns, older, false},
		"an older Kubernetes runs":               {&older, controlPlaneRuns, build.Versions{}, false},
		"another containerd runs":                {&build.Versions{Kubernetes: "1.36", Containerd: "2.2"}, controlPlaneRuns, older, false},
		"only the node runs":                     {&older, nodeRuns, build.Versions{}, false},
		"nothing was noted, and the newest run":  {nil, controlPlaneRuns, build.Versions{}, true},
		"nothing was noted, and an older wanted": {nil, controlPlaneRuns, older, false},
	} {
		t.Run(name, func(t *testing.T) {
			store, err := cache.Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			c, err := Open(store, "lab")
			if err != nil {
				t.Fatal(err)
			}
			if tt.noted != nil {
				if err := c.noteVersions(*tt.noted); err != nil {
					t.Fatal(err)
				}
			}
			if tt.runs != nil {
				tt.runs(t, c)
			}
			err = c.checkVersions(tt.wanted)
			if (err == nil) != tt.ok {
				t.Fatal(err)
			}
			if err != nil && (!strings.Contains(err.Error(), tt.wanted.String()) || !strings.Contains(err.Error(), "plumblab down")) {
				t.Error(err)
			}
			if err := c.forget(); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(c.versionsFile()); err == nil {
				t.Error("the versions outlive the cluster")
			}
		})
	}
}
