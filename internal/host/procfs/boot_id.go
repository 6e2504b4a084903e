// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package procfs

import (
	"fmt"
	"io/fs"
	"strings"
)

// BootID reads sys/kernel/random/boot_id below proc: a random UUID that the
// kernel draws at boot (Documentation/admin-guide/sysctl/kernel.rst).
func BootID(proc fs.FS) (string, error) {
	text, err := fs.ReadFile(proc, "sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	id := strings.TrimSpace(string(text))
	if id == "" {
		return "", fmt.Errorf("read boot id: sys/kernel/random/boot_id is empty")
	}
	return id, nil
}
