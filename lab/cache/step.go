// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/lab/progress"
)

// Step is one thing to build or download.
type Step struct {
	// Name names the step's folder in the store: "hyperkube".
	Name string
	// Title is what a person reads while it runs: "Kubernetes v1.37.1".
	Title string
	// Done is the word for a finished step: "built", "unpacked".
	Done string
	// Key tells apart what is made from different inputs.
	Key string
	// Make fills the empty folder out. It may be stopped at any time.
	Make func(ctx context.Context, out string) error
}

// kept is how many results of one step stay on disk. Two let a developer go
// back and forth between two branches without building each time.
const kept = 2

// Do returns the folder holding the step's result, running the step only
// where no earlier run finished with the same key. A result appears by one
// rename, so a step that was killed leaves nothing that looks finished. Two
// processes that want the same step wait for each other.
func (c *Cache) Do(ctx context.Context, p *progress.Printer, s Step) (string, error) {
	home := c.Path("store", s.Name)
	final := filepath.Join(home, s.Key)
	if err := os.MkdirAll(home, 0o755); err != nil {
		return "", fmt.Errorf("%s: %w", s.Title, err)
	}
	unlock, err := Lock(ctx, filepath.Join(home, "lock"))
	if err != nil {
		return "", fmt.Errorf("%s: %w", s.Title, err)
	}
	defer unlock()

	if _, err := os.Stat(final); err == nil {
		now := time.Now()
		if err := os.Chtimes(final, now, now); err != nil {
			return "", fmt.Errorf("%s: mark as used: %w", s.Title, err)
		}
		p.Cached(s.Title)
		return final, nil
	}
	if err := discardUnfinished(home); err != nil {
		return "", fmt.Errorf("%s: %w", s.Title, err)
	}
	out, err := os.MkdirTemp(home, unfinished+"*")
	if err != nil {
		return "", fmt.Errorf("%s: %w", s.Title, err)
	}
	task := p.Start(s.Title)
	if err := errors.Join(s.Make(ctx, out), ctx.Err()); err != nil {
		task.Fail()
		return "", fmt.Errorf("%s: %w", s.Title, err)
	}
	if err := os.Chmod(out, 0o755); err != nil {
		return "", fmt.Errorf("%s: %w", s.Title, err)
	}
	if err := os.Rename(out, final); err != nil {
		return "", fmt.Errorf("%s: %w", s.Title, err)
	}
	task.Done(s.Done)
	return final, prune(home, kept)
}

// unfinished starts the name of a folder that a step is filling.
const unfinished = "unfinished-"

// discardUnfinished removes what killed runs left. The caller holds the lock.
func discardUnfinished(home string) error {
	left, err := filepath.Glob(filepath.Join(home, unfinished+"*"))
	if err != nil {
		return err
	}
	for _, dir := range left {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove unfinished work: %w", err)
		}
	}
	return nil
}

// prune removes all but the n results used last. A program that still runs
// from a removed folder keeps its open files.
func prune(home string, n int) error {
	entries, err := os.ReadDir(home)
	if err != nil {
		return err
	}
	type result struct {
		name string
		used time.Time
	}
	var results []result
	for _, e := range entries {
		info, err := e.Info()
		// The unfinished may belong to a command that outlived its caller.
		if errors.Is(err, fs.ErrNotExist) || !e.IsDir() || strings.HasPrefix(e.Name(), unfinished) {
			continue
		}
		if err != nil {
			return err
		}
		results = append(results, result{e.Name(), info.ModTime()})
	}
	slices.SortFunc(results, func(a, b result) int { return b.used.Compare(a.used) })
	for _, r := range results[min(n, len(results)):] {
		if err := os.RemoveAll(filepath.Join(home, r.name)); err != nil {
			return fmt.Errorf("remove old result: %w", err)
		}
	}
	return nil
}

// Lock takes an exclusive lock on the file at path, waiting for another
// process to let go of it. The file stays: unlinking a lock file would let
// two processes hold the "same" lock.
func Lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: held by another plumblab: %w", path, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}
