// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package qemu

// Program is how to start a program of this host: Path, then Args before any
// other argument, with Env as its whole environment.
type Program struct {
	Path string
	Args []string
	Env  []string
}
