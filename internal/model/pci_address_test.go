// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package model

import "testing"

func TestParsePCIAddressRefuses(t *testing.T) {
	for _, s := range []string{
		"", "8f:00.0", "0000:8f:00", "0000:8F:00.0", "0000:8f:20.0", "0000:8f:00.8", "000:8f:00.0",
		"0000:8f:00.0 ", "00000:8f:00.0", "0000:08f:00.0", "0000:8f:+1.0", "0000:8f:00.0.0",
	} {
		if a, err := ParsePCIAddress(s); err == nil {
			t.Errorf("%q was read as %s", s, a)
		}
	}
}

func FuzzParsePCIAddress(f *testing.F) {
	f.Add("0000:8f:00.0")
	f.Add("10000:e1:1f.7")
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParsePCIAddress(s)
		if err == nil && a.String() != s {
			t.Errorf("%q was read as %s", s, a)
		}
	})
}
