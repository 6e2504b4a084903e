// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package procfs

import (
	"bytes"
	"strconv"
	"strings"
)

// ParseNUMAStat reads from memory.numa_stat (Documentation/admin-guide/
// cgroup-v2.rst) how many bytes of a control group's own memory (anon) lie on
// each node; nil without that line.
func ParseNUMAStat(text []byte) map[int]uint64 {
	for l := range bytes.Lines(text) {
		rest, ok := bytes.CutPrefix(l, []byte("anon "))
		if !ok {
			continue
		}
		nodes := map[int]uint64{}
		for _, field := range strings.Fields(string(rest)) {
			name, value, _ := strings.Cut(field, "=")
			id, errID := strconv.ParseUint(strings.TrimPrefix(name, "N"), 10, 16)
			size, errSize := strconv.ParseUint(value, 10, 64)
			if errID == nil && errSize == nil {
				nodes[int(id)] = size
			}
		}
		return nodes
	}
	return nil
}
