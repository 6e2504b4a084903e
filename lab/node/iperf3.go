// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package node

import "plumbline.dev/plumbline/lab/vm/initramfs"

// Iperf3 is the program as unpacked below root, and what it is linked against.
func Iperf3(root string) (initramfs.Files, error) {
	return unpacked(root, map[string]string{"/usr/bin/iperf3": "iperf3"})
}
