// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package journal_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"plumbline.dev/plumbline/internal/journal"
)

// childVariable makes TestChild the body of a child process.
const childVariable = "PLUMBLINE_TEST_JOURNAL_DIR"

// TestChild is the child of TestKill: it writes one record again and again,
// and prints a line per record that Put promised is durable.
func TestChild(t *testing.T) {
	dir := os.Getenv(childVariable)
	if dir == "" {
		t.Skip("the body of a child process of TestKill")
	}
	j, err := journal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100000 {
		r := record("a")
		r.BootID = fmt.Sprintf("%d %s", i, strings.Repeat("x", 10000))
		if err := j.Put(r); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(os.Stdout, "put")
	}
}

func TestKill(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	for round := range 10 {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChild$")
		child.Env = append(os.Environ(), childVariable+"="+dir)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range round + 1 {
			if !lines.Scan() {
				t.Fatalf("the child ended early: %v", lines.Err())
			}
		}
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = child.Wait() // killed

		j, err := journal.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		records, problems, err := j.List("dra.net")
		if err != nil || len(problems) != 0 || len(records) != 1 || len(records[0].BootID) < 10000 {
			t.Fatalf("after a kill: %d records, problems %v, %v; want one whole record", len(records), problems, err)
		}
	}
}

func TestLeftoversAreCleaned(t *testing.T) {
	j, dir := open(t)
	put(t, j, record("a"))
	temp := filepath.Join(dir, "dra.net", "a.tmp")
	if err := os.WriteFile(temp, []byte(`{"version": 1, "dri`), 0o600); err != nil {
		t.Fatal(err)
	}
	if records, problems, err := j.List("dra.net"); len(records) != 1 || len(problems) != 0 || err != nil {
		t.Errorf("List = %v, %v, %v; want the leftover ignored", records, problems, err)
	}
	if _, err := journal.Open(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(temp); err == nil {
		t.Error("Open left the leftover")
	}
	if _, err := j.Get("dra.net", "a"); err != nil {
		t.Error(err)
	}
}

func TestLocksExclude(t *testing.T) {
	j, dir := open(t)
	other, err := journal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := j.LockClaim(t.Context(), "dra.net", "a")
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := other.LockClaim(ended, "dra.net", "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("a held lock: %v, want context.Canceled", err)
	}
	// Other claims, the allocation lock, other drivers and writes go on.
	for _, take := range []func() (func(), error){
		func() (func(), error) { return other.LockClaim(t.Context(), "dra.net", "b") },
		func() (func(), error) { return other.LockAllocation(t.Context(), "dra.net") },
		func() (func(), error) { return other.LockClaim(t.Context(), "dra.cpu", "a") },
	} {
		free, err := take()
		if err != nil {
			t.Fatal(err)
		}
		free()
	}
	put(t, other, record("a"))
	unlock()
	free, err := other.LockClaim(ended, "dra.net", "a")
	if err != nil {
		t.Fatalf("a lock given back: %v", err)
	}
	free()
	if _, err := os.Stat(filepath.Join(dir, "dra.net.lock")); err != nil {
		t.Errorf("the lock file must stay: %v", err)
	}
}

func TestManyWriters(t *testing.T) {
	j, _ := open(t)
	var group sync.WaitGroup
	var inside atomic.Int32
	for i := range 16 {
		group.Go(func() {
			unlock, err := j.LockAllocation(t.Context(), "dra.net")
			if err != nil {
				t.Error(err)
				return
			}
			if n := inside.Add(1); n != 1 {
				t.Errorf("%d holders of one lock", n)
			}
			inside.Add(-1)
			unlock()
			if err := j.Put(record(fmt.Sprintf("c%d", i%4))); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	records, problems, err := j.List("dra.net")
	if len(records) != 4 || len(problems) != 0 || err != nil {
		t.Errorf("List = %d records, %v, %v; want 4", len(records), problems, err)
	}
}
