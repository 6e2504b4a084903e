// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// stat holds the two fields of /proc/PID/stat that identity needs.
type stat struct {
	state byte
	start uint64
}

func readStat(pid int) (stat, error) {
	path := fmt.Sprintf("/proc/%d/stat", pid)
	data, err := os.ReadFile(path)
	if err != nil {
		return stat{}, fmt.Errorf("read process: %w", err)
	}
	s, err := parseStat(string(data))
	if err != nil {
		return stat{}, fmt.Errorf("read %s: %w", path, err)
	}
	return s, nil
}

// isGone says of an error of readStat whether the process is no more: before its
// file was opened, or since (fs/proc/base.c: reads of it fail with ESRCH then).
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}

// parseStat reads the text of /proc/PID/stat (proc_pid_stat(5)). The command
// name, field 2, is in parentheses and may itself hold spaces and
// parentheses, so counting starts behind the last one.
func parseStat(text string) (stat, error) {
	_, rest, found := cutLast(text, ")")
	fields := strings.Fields(rest)
	// Fields 3 and 22 of proc_pid_stat(5), counted behind the name.
	const stateField, startField = 0, 19
	if !found || len(fields) <= startField || len(fields[stateField]) != 1 {
		return stat{}, fmt.Errorf("parse %q: want at least 22 fields", text)
	}
	start, err := strconv.ParseUint(fields[startField], 10, 64)
	if err != nil {
		return stat{}, fmt.Errorf("parse start time: %w", err)
	}
	return stat{state: fields[stateField][0], start: start}, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
