// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"plumbline.dev/plumbline/lab/controlplane"
)

// LogFile returns the path of a component's log, which may be from an earlier
// run.
func (c *Cluster) LogFile(component string) (string, error) {
	logs, err := c.logs()
	if err != nil {
		return "", err
	}
	path, found := logs[component]
	if !found {
		return "", fmt.Errorf("cluster %s has no log of %q: it has %s", c.name, component,
			strings.Join(slices.Sorted(maps.Keys(logs)), ", "))
	}
	return path, nil
}

// LogNames lists the components that have a log.
func (c *Cluster) LogNames() ([]string, error) {
	logs, err := c.logs()
	return slices.Sorted(maps.Keys(logs)), err
}

// logs maps the components to their logs: those of the host, and those that
// a guest sends here or a node on this host writes.
func (c *Cluster) logs() (map[string]string, error) {
	logs := map[string]string{}
	for _, pattern := range []string{controlplane.LogPath(c.dir, "*"), c.machine().Log("*"), c.hostNode().Log("*")} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		for _, path := range found {
			logs[strings.TrimSuffix(filepath.Base(path), ".log")] = path
		}
	}
	if len(logs) == 0 {
		return nil, fmt.Errorf("cluster %s was never up: run plumblab up", c.name)
	}
	return logs, nil
}

// Status writes what runs.
func (c *Cluster) Status(ctx context.Context, w io.Writer) error {
	cp, err := c.find()
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "cluster %s: control plane at %s\n", c.name, cp.Server()); err != nil {
		return err
	}
	return c.Kubectl(ctx, "get", "nodes")
}
