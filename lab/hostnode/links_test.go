// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostnode

import (
	"slices"
	"testing"
)

func TestLinksIn(t *testing.T) {
	const table = "Inter-|   Receive\n face |bytes    packets\n    lo:    0 0\n  nic0: 12 1\n"
	if got := linksIn(table); !slices.Equal(got, []string{"lo", "nic0"}) {
		t.Errorf("got %q", got)
	}
}
