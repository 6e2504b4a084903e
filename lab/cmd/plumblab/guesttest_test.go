// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"testing"

	"plumbline.dev/plumbline/lab/cluster"
)

// Where QEMU 8 or the newer kernel cannot be had, the tests say why and are left out, but
// not in CI, and not for another reason.
func TestSkippedGuestTest(t *testing.T) {
	lacking := fmt.Errorf("%w: %w", cluster.ErrNoRDMA, errors.New("no mirror has QEMU 8"))
	for name, c := range map[string]struct {
		err      error
		ci, want string
	}{
		"all there":     {nil, "", ""},
		"lacking":       {lacking, "", "guest-test: skipped: no guest with RDMA in namespaces: no mirror has QEMU 8"},
		"lacking in CI": {lacking, "true", ""},
		"another error": {errors.New("no space left"), "", ""},
	} {
		if got := skipped(c.err, c.ci); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
