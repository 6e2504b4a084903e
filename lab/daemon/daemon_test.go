// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestStartStop(t *testing.T) {
	dir := t.TempDir()
	pidFile := filepath.Join(dir, "sleep.pid")
	id, err := Start(Spec{
		Path: "/bin/sleep", Args: []string{"600"}, Dir: dir,
		Log: filepath.Join(dir, "sleep.log"), PIDFile: pidFile,
	})
	if err != nil {
		t.Fatal(err)
	}
	read, err := Read(pidFile)
	if err != nil || read != id {
		t.Fatalf("Read = %+v, %v; want %+v", read, err, id)
	}
	if alive, err := id.Alive(); err != nil || !alive {
		t.Fatalf("Alive = %v, %v right after Start", alive, err)
	}
	for range 2 {
		if err := Stop(t.Context(), id, 10*time.Second); err != nil {
			t.Fatal(err)
		}
		if alive, err := id.Alive(); err != nil || alive {
			t.Fatalf("Alive = %v, %v after Stop", alive, err)
		}
	}
}

func TestEnd(t *testing.T) {
	dir := t.TempDir()
	pidFile := filepath.Join(dir, "sleep.pid")
	id, err := Start(Spec{
		Path: "/bin/sleep", Args: []string{"600"}, Dir: dir,
		Log: filepath.Join(dir, "sleep.log"), PIDFile: pidFile,
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := End(t.Context(), pidFile, 10*time.Second); err != nil {
			t.Fatal(err)
		}
		if alive, err := id.Alive(); err != nil || alive {
			t.Fatalf("Alive = %v, %v after End", alive, err)
		}
		if _, err := os.Stat(pidFile); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("the pid file is left: %v", err)
		}
	}
	if err := os.WriteFile(pidFile, []byte("who?\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := End(t.Context(), pidFile, time.Second); err == nil {
		t.Error("a file that names no process is taken for one")
	}
	if _, err := os.Stat(pidFile); err != nil {
		t.Errorf("it is not left for somebody to look at: %v", err)
	}
}

func TestStopLeavesStrangersAlone(t *testing.T) {
	self, err := Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for name, stranger := range map[string]ID{
		"later start": {PID: self.PID, Start: self.Start - 1, Boot: self.Boot},
		"other boot":  {PID: self.PID, Start: self.Start, Boot: "other"},
	} {
		// A signal would end this test.
		if err := Stop(t.Context(), stranger, time.Second); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStartNamesTheProgram(t *testing.T) {
	dir := t.TempDir()
	_, err := Start(Spec{Path: "/does/not/exist", Dir: dir, Log: filepath.Join(dir, "log"), PIDFile: filepath.Join(dir, "pid")})
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "/does/not/exist") {
		t.Errorf("Start = %v", err)
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("12 34 0e7c\n")
	f.Add("-1 0 x")
	f.Fuzz(func(t *testing.T, text string) {
		if id, err := parseID(text, "pid"); err == nil && id.PID <= 0 {
			t.Errorf("parseID(%q) = %+v", text, id)
		}
	})
}

// A process may end after its file was opened, or before.
func TestIsGone(t *testing.T) {
	child := exec.Command("/bin/sleep", "600")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	path := fmt.Sprintf("/proc/%d/stat", child.Process.Pid)
	opened, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // killed
	for _, read := range []func() error{
		func() error { _, err := io.ReadAll(opened); return err },
		func() error { _, err := readStat(child.Process.Pid); return err },
	} {
		if err := read(); !isGone(err) {
			t.Errorf("%v is taken for something else", err)
		}
	}
	if isGone(fs.ErrPermission) || isGone(nil) {
		t.Error("a process that may not be read, or was read, is taken for gone")
	}
}
