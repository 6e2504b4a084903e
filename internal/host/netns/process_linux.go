// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"os"
	"path/filepath"
	"strconv"
)

// OfProcess is the path below dir, where namespaces are kept by name (ip-netns(8)), of
// the network namespace of a process of the /proc at proc; "" where none of them is its
// own. It takes CAP_SYS_PTRACE over the process.
func OfProcess(proc string, pid uint32, dir string) string {
	own, err := os.Stat(filepath.Join(proc, strconv.FormatUint(uint64(pid), 10), "ns/net"))
	if err != nil {
		return ""
	}
	if self, err := os.Stat(Self); err != nil || os.SameFile(self, own) {
		return "" // the host's, also where somebody has given it a name
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	for _, n := range names {
		path := filepath.Join(dir, n.Name())
		if named, err := os.Stat(path); err == nil && os.SameFile(named, own) {
			return path
		}
	}
	return ""
}
