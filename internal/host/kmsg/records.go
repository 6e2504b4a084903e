// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package kmsg

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"
)

// Record is a message of the log.
type Record struct {
	// Facility is 0 for the kernel's own messages. What programs write into the log has
	// another one: the kernel takes care of that.
	Facility int
	// At is when it was logged, from the start of the kernel on.
	At time.Duration
	// Text has escapes (\x0a) for what is not printable, by the kernel itself.
	Text string
}

// Records are those of a log, in order. An error is the last thing that comes.
func Records(r io.Reader) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(make([]byte, 0, 4<<10), maxRecord)
		for n := 1; lines.Scan(); n++ {
			line := lines.Text()
			if strings.HasPrefix(line, " ") {
				continue // " SUBSYSTEM=pci", of the record before
			}
			record, err := parse(line)
			if err != nil {
				yield(Record{}, fmt.Errorf("line %d of the kernel's log: %w", n, err))
				return
			}
			if !yield(record, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(Record{}, fmt.Errorf("the kernel's log: %w", err))
		}
	}
}

// facilityShift is where the facility begins in a priority; below it is the level.
const facilityShift = 3

// parse reads "PRIORITY,SEQUENCE,MICROSECONDS,FLAGS;TEXT". Kernels may add fields before
// the semicolon.
func parse(line string) (Record, error) {
	prefix, text, found := strings.Cut(line, ";")
	fields := strings.Split(prefix, ",")
	if !found || len(fields) < 3 {
		return Record{}, fmt.Errorf("%.40q: want PRIORITY,SEQUENCE,MICROSECONDS,FLAGS;TEXT", line)
	}
	priority, err := strconv.ParseUint(fields[0], 10, 31)
	if err != nil {
		return Record{}, fmt.Errorf("priority %.20q: want a number", fields[0])
	}
	at, err := strconv.ParseUint(fields[2], 10, 53) // microseconds that are nanoseconds in 63 bits
	if err != nil {
		return Record{}, fmt.Errorf("time %.20q: want a number of microseconds", fields[2])
	}
	return Record{Facility: int(priority >> facilityShift), At: time.Duration(at) * time.Microsecond, Text: text}, nil
}
