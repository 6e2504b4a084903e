// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"plumbline.dev/plumbline/internal/atomicfile"
	"plumbline.dev/plumbline/lab/build"
	"plumbline.dev/plumbline/lab/controlplane"
)

// versionsFile records what the running cluster was started with.
func (c *Cluster) versionsFile() string { return filepath.Join(c.dir, "versions") }

// checkVersions refuses to go on with other versions than those that run: a control
// plane or a node that runs is left alone, and the other half would be of another kind.
func (c *Cluster) checkVersions(wanted build.Versions) error {
	running, err := c.anyPartRuns()
	if err != nil || !running {
		return err
	}
	has, err := os.ReadFile(c.versionsFile())
	if errors.Is(err, fs.ErrNotExist) {
		// Started when there was nothing to choose from.
		has, err = []byte(build.Versions{}.String()), nil
	}
	if err != nil {
		return err
	}
	if string(has) != wanted.String() {
		return fmt.Errorf("cluster %s runs %s, not %s: run plumblab down first, choose what runs with --kubernetes and --containerd, or give the new cluster a name with --name",
			c.name, has, wanted)
	}
	return nil
}

// anyPartRuns says whether the control plane or a node runs.
func (c *Cluster) anyPartRuns() (bool, error) {
	_, err := controlplane.Find(c.dir)
	if errors.Is(err, controlplane.ErrDown) {
		return c.running()
	}
	return err == nil, err
}

// noteVersions records what the cluster is started with.
func (c *Cluster) noteVersions(v build.Versions) error {
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return err
	}
	return atomicfile.Write(c.versionsFile(), 0o644, strings.NewReader(v.String()))
}
