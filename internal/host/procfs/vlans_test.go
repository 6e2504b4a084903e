// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package procfs

import (
	"maps"
	"testing"
)

func TestParseVLANs(t *testing.T) {
	const text = "VLAN Dev name\t | VLAN ID\nName-Type: VLAN_NAME_TYPE_RAW_PLUS_VID_NO_PAD\n" +
		"net1           | 100  | ens2f0\nabcdefghijklmno| 7  | ens2f0\na|b            | 4094  | bond0\nx              | 4096  | ens2f0\n"
	if got, want := ParseVLANs([]byte(text)), map[string]int{"net1": 100, "a|b": 4094, "abcdefghijklmno": 7}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func FuzzVLANs(f *testing.F) {
	f.Add([]byte("net1           | 100  | ens2f0\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for name, tag := range ParseVLANs(text) {
			if name == "" || tag < 0 || tag > 4095 {
				t.Errorf("%q has tag %d", name, tag)
			}
		}
	})
}
