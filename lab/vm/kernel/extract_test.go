// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"testing"
)

// packed is "a kernel\n", packed as the kernel's Makefile does
// (xz --check=crc32 --x86 --lzma2=dict=32MiB).
const packed = "fd377a585a0000016922de360201040021011a0001c980b301000861206b65726e656c0a00000000089285ba00011d09936136a69042990d010000000001595a"

func image(t testing.TB, payload []byte) []byte {
	t.Helper()
	b := make([]byte, 1024, 2048)
	b[setupSectors] = 1
	copy(b[headerMagic:], "HdrS")
	binary.LittleEndian.PutUint32(b[payloadOffset:], 8)
	binary.LittleEndian.PutUint32(b[payloadLength:], uint32(len(payload)))
	return append(append(b, make([]byte, 8)...), payload...)
}

func good(t testing.TB) []byte {
	t.Helper()
	stream, err := hex.DecodeString(packed)
	if err != nil {
		t.Fatal(err)
	}
	return image(t, append(stream, 9, 0, 0, 0))
}

func TestExtract(t *testing.T) {
	var out bytes.Buffer
	if err := Extract(&out, good(t)); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != "a kernel\n" {
		t.Errorf("got %q", got)
	}
}

func TestExtractRefuses(t *testing.T) {
	tests := map[string][]byte{
		"empty":            nil,
		"no header":        make([]byte, 4096),
		"other packing":    image(t, []byte("\x1f\x8b and so on")),
		"short payload":    image(t, []byte("ab")),
		"payload past end": good(t)[:len(good(t))-1],
	}
	for name, data := range tests {
		t.Run(name, func(t *testing.T) {
			if err := Extract(new(bytes.Buffer), data); !errors.Is(err, ErrOther) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func FuzzExtract(f *testing.F) {
	f.Add(good(f))
	f.Fuzz(func(_ *testing.T, data []byte) {
		_ = Extract(new(bytes.Buffer), data)
	})
}
