// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package procfs

import (
	"bytes"
	"errors"
	"strconv"
)

// Mounts are the types of the file systems that are mounted at a path, several
// where one hides another.
type Mounts map[string][]string

// ParseMountInfo reads /proc/PID/mountinfo, whose paths are those that the process
// sees:
//
//	36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
//	(1)(2)(3)   (4)   (5)      (6)      (7)   (8) (9)   (10)         (11)
//
// Of fields 7 there may be none or many; 8 ends them.
func ParseMountInfo(text []byte) (Mounts, error) {
	mounts := Mounts{}
	for l := range bytes.Lines(text) {
		fields := bytes.Fields(l)
		const point, optional = 4, 6
		end := -1
		for i := optional; i < len(fields); i++ {
			if string(fields[i]) == "-" {
				end = i
				break
			}
		}
		if end < 0 || end+1 >= len(fields) {
			return nil, errors.New("mountinfo: want a mount point, and a type behind a hyphen, in every line")
		}
		path := unescape(fields[point])
		mounts[path] = append(mounts[path], string(fields[end+1]))
	}
	return mounts, nil
}

// unescape gives back blanks, line ends and backslashes, which the kernel writes
// as three octal digits (fs/seq_file.c, mangle_path).
func unescape(name []byte) string {
	plain := make([]byte, 0, len(name))
	for i := 0; i < len(name); i++ {
		if name[i] == '\\' && i+3 < len(name) {
			if code, err := strconv.ParseUint(string(name[i+1:i+4]), 8, 8); err == nil {
				plain = append(plain, byte(code))
				i += 3
				continue
			}
		}
		plain = append(plain, name[i])
	}
	return string(plain)
}
