// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package procfs

import (
	"io/fs"
	"testing"
	"testing/fstest"
)

func TestBootID(t *testing.T) {
	proc := fstest.MapFS{"sys/kernel/random/boot_id": {Data: []byte("0a1b\n")}}
	if id, err := BootID(proc); id != "0a1b" || err != nil {
		t.Errorf("BootID = %q, %v", id, err)
	}
	for name, proc := range map[string]fs.FS{
		"missing": fstest.MapFS{},
		"empty":   fstest.MapFS{"sys/kernel/random/boot_id": {Data: []byte("\n")}},
	} {
		if id, err := BootID(proc); err == nil {
			t.Errorf("%s: BootID = %q, want an error", name, id)
		}
	}
}
