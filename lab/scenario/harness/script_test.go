// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// A program's short commands live beside it under the same name, started before and
// after it.
func TestFindProcess(t *testing.T) {
	const name = "finds-a-process"
	program := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(program, []byte("#!/bin/sh\nread -r end\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	start := func(args ...string) string {
		cmd := exec.Command(program, args...)
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = stdin.Close(); _ = cmd.Wait() })
		return strconv.Itoa(cmd.Process.Pid)
	}
	find := func(args ...string) (string, error) {
		out, err := exec.Command("sh", append([]string{"-c", FindProcess + `find_process "$@"`, "sh"}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	if pid, err := find(name); err == nil {
		t.Fatalf("found %q before there was one", pid)
	}
	first := start("metrics")
	if pid, err := find(name, "--node-name="); err == nil {
		t.Errorf("found %q, which has no such option", pid)
	}
	server := start("--drivers=none", "--node-name=a")
	last := start("healthz")
	if pid, err := find(name, "--node-name="); err != nil || pid != server {
		t.Errorf("found %q, %v; want %s and neither %s nor %s", pid, err, server, first, last)
	}
	if pid, err := find(name); err != nil || pid != first && pid != server && pid != last {
		t.Errorf("found %q, %v; want one of %s, %s, %s", pid, err, first, server, last)
	}
}
