// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// Stat is of /proc/PID/stat or /proc/PID/task/TID/stat what says who a process or
// thread is, and where it ran.
type Stat struct {
	// State is a letter (field 3), such as R, S, or Z of a zombie.
	State byte
	// Ticks is how long it ran (utime and stime, fields 14 and 15), in clock
	// ticks, 100 a second.
	Ticks uint64
	// Start is when it started (field 22), in ticks since boot: with its number
	// its identity.
	Start uint64
	// CPU is where it ran last (field 39).
	CPU int
}

// Fields of stat as proc_pid_stat(5) counts them; the name, field 2, is cut off
// with everything before it.
const (
	fieldState     = 3
	fieldUtime     = 14
	fieldStime     = 15
	fieldStart     = 22
	fieldProcessor = 39
	firstField     = 3
)

// ParseStat reads /proc/PID/stat or /proc/PID/task/TID/stat. The name may hold
// anything, parentheses and line ends included: the last parenthesis ends it.
func ParseStat(text []byte) (Stat, error) {
	end := bytes.LastIndexByte(text, ')')
	if end < 0 {
		return Stat{}, errors.New("stat: want a name in parentheses")
	}
	fields := bytes.Fields(text[end+1:])
	if len(fields) <= fieldProcessor-firstField {
		return Stat{}, fmt.Errorf("stat: %d fields behind the name: want at least %d", len(fields), fieldProcessor-firstField+1)
	}
	number := func(field int) (uint64, error) {
		n, err := strconv.ParseUint(string(fields[field-firstField]), 10, 63)
		if err != nil {
			return 0, fmt.Errorf("stat: field %d is %q: want a number", field, fields[field-firstField])
		}
		return n, nil
	}
	user, errUser := number(fieldUtime)
	system, errSystem := number(fieldStime)
	start, errStart := number(fieldStart)
	cpu, errCPU := number(fieldProcessor)
	if err := errors.Join(errUser, errSystem, errStart, errCPU); err != nil {
		return Stat{}, err
	}
	if len(fields[fieldState-firstField]) != 1 {
		return Stat{}, fmt.Errorf("stat: field %d is %q: want a letter", fieldState, fields[fieldState-firstField])
	}
	if cpu >= maxID {
		return Stat{}, fmt.Errorf("stat: field %d is %d: want a CPU", fieldProcessor, cpu)
	}
	return Stat{State: fields[fieldState-firstField][0], Ticks: user + system, Start: start, CPU: int(cpu)}, nil
}
