// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"plumbline.dev/plumbline/lab/progress"
)

func open(t *testing.T) (*Cache, *progress.Printer) {
	t.Helper()
	c, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return c, progress.New(io.Discard, false, time.Now)
}

func TestDoRunsOncePerKey(t *testing.T) {
	c, p := open(t)
	var runs atomic.Int32
	step := func(key string) Step {
		return Step{Name: "s", Title: "s", Done: "built", Key: key, Make: func(_ context.Context, out string) error {
			runs.Add(1)
			return os.WriteFile(filepath.Join(out, "result"), []byte(key), 0o644)
		}}
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if _, err := c.Do(t.Context(), p, step("a")); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if runs.Load() != 1 {
		t.Errorf("four callers made it %d times", runs.Load())
	}
	dir, err := c.Do(t.Context(), p, step("b"))
	if err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "result")); err != nil || string(data) != "b" {
		t.Errorf("result of key b: %q, %v", data, err)
	}
}

func TestDoLeavesNothingHalfDone(t *testing.T) {
	c, p := open(t)
	broken := errors.New("broken")
	fail := Step{Name: "s", Title: "s", Key: "a", Make: func(_ context.Context, out string) error {
		return errors.Join(broken, os.WriteFile(filepath.Join(out, "half"), nil, 0o644))
	}}
	if _, err := c.Do(t.Context(), p, fail); !errors.Is(err, broken) {
		t.Fatalf("Do = %v", err)
	}
	// A killed run leaves the same: an unfinished folder.
	good := Step{Name: "s", Title: "s", Key: "a", Make: func(_ context.Context, out string) error {
		return os.WriteFile(filepath.Join(out, "whole"), nil, 0o644)
	}}
	dir, err := c.Do(t.Context(), p, good)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "half")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half-done work in the result: %v", err)
	}
	left, err := filepath.Glob(c.Path("store", "s", unfinished+"*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestDoStopsWithItsContext(t *testing.T) {
	c, p := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	step := Step{Name: "s", Title: "s", Key: "a", Make: func(context.Context, string) error {
		cancel()
		return nil
	}}
	if _, err := c.Do(ctx, p, step); !errors.Is(err, context.Canceled) {
		t.Errorf("Do = %v", err)
	}
	if _, err := os.Stat(c.Path("store", "s", "a")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an interrupted step left a result: %v", err)
	}
}

func TestPruneKeepsWhatWasUsedLast(t *testing.T) {
	home := t.TempDir()
	now := time.Now()
	for i, name := range []string{"oldest", "older", "newest"} {
		dir := filepath.Join(home, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		at := now.Add(time.Duration(i) * time.Minute)
		if err := os.Chtimes(dir, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := prune(home, 2); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"oldest": false, "older": true, "newest": true} {
		if _, err := os.Stat(filepath.Join(home, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKeyTellsPartsApart(t *testing.T) {
	a := new(Key).Add("ab", "c").String()
	b := new(Key).Add("a", "bc").String()
	if a == b {
		t.Errorf("keys of different parts are both %s", a)
	}
}
