// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package suggest_test

import (
	"testing"

	"plumbline.dev/plumbline/internal/suggest"
)

func TestClosest(t *testing.T) {
	names := []string{"mtu", "name", "hardwareAddr", "dhcp", "numaNode"}
	for name, want := range map[string]string{
		"MTU": "mtu", "mut": "", "nam": "name", "interace": "", "names": "name", "hardwareAddress": "hardwareAddr", "hardwareAdr": "hardwareAddr",
		"dhpc": "", "numanode": "numaNode", "numaNod": "numaNode", "x": "", "": "", "something": "",
	} {
		if got := suggest.Closest(name, names); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
