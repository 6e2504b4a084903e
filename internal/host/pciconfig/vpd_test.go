// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package pciconfig

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

const (
	vpdName = "\x82\x04\x00CX-8"
	vpdV3   = "\x90\x0e\x00PN\x03ABCV3\x051-2-3"
)

func TestVPDKeyword(t *testing.T) {
	for name, tc := range map[string]struct {
		data, want string
		err        error
	}{
		"among others":                   {vpdName + vpdV3 + "\x78", "1-2-3", nil},
		"after a small resource":         {"\x09x" + vpdV3, "1-2-3", nil},
		"read no further":                {vpdName + vpdV3, "1-2-3", nil},
		"in the one that is for writing": {"\x91\x08\x00V3\x051-2-3\x78", "", ErrNoKeyword},
		"none":                           {vpdName + "\x90\x06\x00PN\x03ABC\x78", "", ErrNoKeyword},
		"an end with a length":           {"\x79\x00", "", ErrNoKeyword},
		"nothing":                        {"", "", io.ErrUnexpectedEOF},
		"a head that is cut":             {"\x90\x0e", "", io.ErrUnexpectedEOF},
		"a name that is cut":             {"\x82\x04\x00CX", "", io.ErrUnexpectedEOF},
		"a keyword that is cut":          {"\x90\x0e\x00PN\x03ABCV3", "", io.ErrUnexpectedEOF},
		"a value that is cut":            {vpdV3[:len(vpdV3)-1], "", io.ErrUnexpectedEOF},
		"a value beyond its resource":    {"\x90\x05\x00V3\x051-2-3\x78", "", io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := VPDKeyword(fstest.MapFS{"vpd": {Data: []byte(tc.data)}}, "vpd", "V3")
			if got != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("%q, %v, want %q, %v", got, err, tc.want, tc.err)
			}
		})
	}
	if _, err := VPDKeyword(fstest.MapFS{}, "vpd", "V3"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// A device decides what its vital product data says.
func FuzzVPDKeyword(f *testing.F) {
	f.Add([]byte(vpdName + vpdV3 + "\x78"))
	f.Add([]byte("\x90\xff\xffV3\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		value, err := VPDKeyword(fstest.MapFS{"vpd": {Data: data}}, "vpd", "V3")
		if err == nil && !strings.Contains(string(data), "V3"+string([]byte{byte(len(value))})+value) {
			t.Errorf("%q is not in %q", value, data)
		}
	})
}
