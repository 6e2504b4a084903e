// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"sigs.k8s.io/yaml"
)

// Source is a checkout that a release is made from.
type Source struct {
	// Dir is the checkout's root folder.
	Dir string
	// Version is a semantic version without "v": that of the tag, or of the chart
	// with the commit as pre-release, "0.1.0-dev.g964cbbb".
	Version string
	// Commit is the whole name of the commit; empty in a checkout without git.
	Commit string
	// Time is the commit's. Everything in a release is as old as that.
	Time time.Time
}

// Open reads what a checkout is a version of. Changes that are not committed
// make a version that ends in ".dirty".
func Open(ctx context.Context, dir string) (Source, error) {
	data, err := os.ReadFile(filepath.Join(dir, chartDir, "Chart.yaml"))
	if err != nil {
		return Source{}, fmt.Errorf("read the version of the chart: %w", err)
	}
	var metadata chart.Metadata
	if err := yaml.Unmarshal(data, &metadata); err != nil {
		return Source{}, fmt.Errorf("read the version of the chart: %w", err)
	}
	s := Source{Dir: dir, Version: metadata.Version + "-dev"}
	if _, err := os.Stat(filepath.Join(dir, ".git")); err != nil {
		return s, nil // an archive of the source
	}
	if s.Commit, err = git(ctx, dir, "rev-parse", "HEAD"); err != nil {
		return Source{}, err
	}
	seconds, err := git(ctx, dir, "log", "-1", "--format=%ct")
	if err != nil {
		return Source{}, err
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return Source{}, fmt.Errorf("read the time of commit %s: %w", s.Commit, err)
	}
	s.Time = time.Unix(unix, 0).UTC()
	changes, err := git(ctx, dir, "status", "--porcelain")
	if err != nil {
		return Source{}, err
	}
	s.Version = versionOf(ctx, dir, metadata.Version, s.Commit, changes != "")
	return s, nil
}

func versionOf(ctx context.Context, dir, base, commit string, dirty bool) string {
	version := base + "-dev.g" + commit[:min(7, len(commit))]
	if tag, err := git(ctx, dir, "describe", "--tags", "--exact-match", "--match", "v*"); err == nil && !dirty {
		return strings.TrimPrefix(tag, "v")
	}
	if dirty {
		version += ".dirty"
	}
	return version
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	return output(exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...))
}

// output runs a command; what it complains of becomes the error's text.
func output(cmd *exec.Cmd) (string, error) {
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", cmd, err, strings.TrimSpace(complaint.String()))
	}
	return strings.TrimSpace(string(out)), nil
}
