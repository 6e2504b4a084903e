// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package daemon starts, finds and stops the lab's long-running processes. A
// process is known by its id, start time and boot: a process id alone may by
// now belong to another process, which nothing here may signal.
package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"plumbline.dev/plumbline/internal/host/procfs"
)

// ID names one process of this machine for as long as it lives, and no other
// process ever after.
type ID struct {
	// PID is the process id in the lab's own pid namespace.
	PID int
	// Start is the process's start in clock ticks since boot, field 22 of
	// /proc/PID/stat.
	Start uint64
	// Boot is /proc/sys/kernel/random/boot_id.
	Boot string
}

// Of reads the identity of the running process pid.
func Of(pid int) (ID, error) {
	stat, err := readStat(pid)
	if err != nil {
		return ID{}, err
	}
	boot, err := bootID()
	if err != nil {
		return ID{}, err
	}
	return ID{PID: pid, Start: stat.Start, Boot: boot}, nil
}

// Alive says whether the process still runs. A zombie does not.
func (id ID) Alive() (bool, error) {
	boot, err := bootID()
	if err != nil {
		return false, err
	}
	if boot != id.Boot {
		return false, nil
	}
	stat, err := readStat(id.PID)
	if isGone(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return stat.Start == id.Start && stat.State != 'Z' && stat.State != 'X', nil
}

func bootID() (string, error) { return procfs.BootID(os.DirFS("/proc")) }

// Write records the identity in the file at path, whole or not at all.
func (id ID) Write(path string) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".pid-*")
	if err != nil {
		return fmt.Errorf("write pid file: %w", err)
	}
	_, err = fmt.Fprintf(tmp, "%d %d %s\n", id.PID, id.Start, id.Boot)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write pid file %s: %w", path, err), os.Remove(tmp.Name()))
	}
	return nil
}

// Read returns the identity recorded at path; fs.ErrNotExist where there is
// none.
func Read(path string) (ID, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return ID{}, fmt.Errorf("read pid file: %w", err)
	}
	return parseID(string(data), path)
}

func parseID(text, path string) (ID, error) {
	var id ID
	if _, err := fmt.Sscanf(text, "%d %d %s\n", &id.PID, &id.Start, &id.Boot); err != nil {
		return ID{}, fmt.Errorf("read pid file %s: want \"PID START BOOT\": %w", path, err)
	}
	if id.PID <= 0 {
		return ID{}, fmt.Errorf("read pid file %s: process id %d is not positive", path, id.PID)
	}
	return id, nil
}

func readStat(pid int) (procfs.Stat, error) {
	path := fmt.Sprintf("/proc/%d/stat", pid)
	data, err := os.ReadFile(path)
	if err != nil {
		return procfs.Stat{}, fmt.Errorf("read process: %w", err)
	}
	s, err := procfs.ParseStat(data)
	if err != nil {
		return procfs.Stat{}, fmt.Errorf("read %s: %w", path, err)
	}
	return s, nil
}

// isGone says of an error of readStat whether the process is no more: before its
// file was opened, or since (fs/proc/base.c: reads of it fail with ESRCH then).
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}
