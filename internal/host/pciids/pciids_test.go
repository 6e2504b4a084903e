// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package pciids

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const database = `# a comment
10de  NVIDIA Corporation
	2335  GH100 [H200 SXM 141GB]
		10de 18be  a subsystem that is no device
15b3  Mellanox Technologies
	101e  ConnectX Family mlx5Gen Virtual Function
	1021  MT2910 Family [ConnectX-7]
not an entry
	101e  a device of nobody
C 15b3  a class that is no vendor
	101e  a subclass
`

func TestLookup(t *testing.T) {
	h200, vf, known, unknown := ID{0x10de, 0x2335}, ID{0x15b3, 0x101e}, ID{0x15b3, 0xffff}, ID{0xabcd, 1}
	got, err := Lookup(strings.NewReader(database), []ID{h200, vf, known, unknown})
	if err != nil {
		t.Fatal(err)
	}
	want := map[ID]Name{
		h200:  {"NVIDIA Corporation", "GH100 [H200 SXM 141GB]"},
		vf:    {"Mellanox Technologies", "ConnectX Family mlx5Gen Virtual Function"},
		known: {"Mellanox Technologies", ""},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names wanted (-) and found (+):\n%s", diff)
	}
}

func FuzzLookup(f *testing.F) {
	f.Add(database)
	f.Fuzz(func(t *testing.T, text string) {
		id := ID{0x15b3, 0x101e}
		names, err := Lookup(strings.NewReader(text), []ID{id})
		if err == nil && len(names) > 1 {
			t.Errorf("%d names for one identity", len(names))
		}
	})
}
