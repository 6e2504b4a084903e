// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// existing is a file such as the runtime makes for a pod's network namespace.
func existing(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "netns")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// bind mounts a namespace over a file, as container runtimes name them.
func bind(t *testing.T, namespace, path string) {
	t.Helper()
	// Making the namespace needed root already.
	if err := unix.Mount(namespace, path, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) }) // unmounted by then, mostly
}

// unbind ends the name, as container runtimes do with a pod.
func unbind(t *testing.T, path string) {
	t.Helper()
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
