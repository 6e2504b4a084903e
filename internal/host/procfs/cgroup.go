// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package procfs

// idLength is how long container runtimes' ids are, in hexadecimal digits.
const idLength = 64

// EachContainerID calls found with every container id that stands in the text of
// /proc/PID/cgroup, until it returns false. Runtimes differ in what they write
// around it: /kubepods/podUID/ID, cri-containerd-ID.scope, crio-ID.scope. The
// bytes are the text's own.
func EachContainerID(text []byte, found func(id []byte) bool) {
	run := 0
	for i, c := range text {
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'f' {
			run++
			continue
		}
		if run == idLength && !found(text[i-run:i]) {
			return
		}
		run = 0
	}
	if run == idLength {
		found(text[len(text)-run:])
	}
}
