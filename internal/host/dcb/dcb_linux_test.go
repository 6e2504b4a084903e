// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package dcb

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// attribute composes one, with the padding behind it.
func attribute(kind uint16, parts ...[]byte) []byte {
	value := slices.Concat(parts...)
	out := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
	out = append(binary.NativeEndian.AppendUint16(out, kind), value...)
	return append(out, make([]byte, -len(out)&3)...)
}

// entry is a struct dcb_app.
func entry(selector, priority uint8, protocol uint16) []byte {
	return attribute(attrEntry, binary.NativeEndian.AppendUint16([]byte{selector, priority}, protocol))
}

// pfc is a struct ieee_pfc.
func pfc(enabled uint8) []byte {
	value := make([]byte, pfcSize)
	value[0], value[offsetEnabled] = 8, enabled
	return attribute(attrPFC, value)
}

// answer is composed as drivers with DCB answer: the interface's name, and beside what is
// read bandwidths (1) and limits of rates (7).
func answer(parts ...[]byte) []byte {
	ieee := slices.Concat(attribute(1, make([]byte, 59)), slices.Concat(parts...), attribute(7, make([]byte, 64)))
	return slices.Concat([]byte{0, 21, 0, 0}, attribute(1, []byte("eth1\x00")), attribute(attrIEEE|1<<15, ieee))
}

func TestDecode(t *testing.T) {
	three := uint8(1 << 3)
	table := attribute(attrTable, entry(selectorDSCP, 3, 26), entry(1, 3, 0x8906), attribute(2, []byte{1, 2, 3, 4}), entry(selectorDSCP, 6, 48))
	for name, tt := range map[string]struct {
		body []byte
		want Settings
	}{
		"both":                       {answer(pfc(three), table), Settings{FlowControl: &three, DSCP: []Priority{{26, 3}, {48, 6}}}},
		"flow control of none":       {answer(pfc(0)), Settings{FlowControl: new(uint8)}},
		"a driver that tells little": {answer(), Settings{}},
		"nothing but the interface":  {slices.Concat([]byte{0, 21, 0, 0}, attribute(1, []byte("eth1\x00"))), Settings{}},
	} {
		got, err := decode(tt.body)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for want, body := range map[string][]byte{
		"an answer of 3 bytes, want at least 4":         {0, 21, 0},
		"flow control of 8 bytes, want at least 136":    answer(attribute(attrPFC, make([]byte, 8))),
		"an entry of 2 bytes, want at least 4":          answer(attribute(attrTable, attribute(attrEntry, []byte{5, 3}))),
		"DSCP 64 has priority 3, want at most 63 and 7": answer(attribute(attrTable, entry(selectorDSCP, 3, 64))),
		"DSCP 26 has priority 8, want at most 63 and 7": answer(attribute(attrTable, entry(selectorDSCP, 8, 26))),
		"an attribute that says it has 255 of 4 bytes":  {0, 21, 0, 0, 255, 0, 13, 0},
	} {
		if got, err := decode(body); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%x: %+v, %v; want %q", body, got, err, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(answer(pfc(8), attribute(attrTable, entry(selectorDSCP, 3, 26))))
	f.Add([]byte{0, 21, 0, 0, 4, 0, 13, 128})
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := decode(body)
		if err != nil && (s.FlowControl != nil || s.DSCP != nil) {
			t.Errorf("%+v beside %v", s, err)
		}
		for _, p := range s.DSCP {
			if p.DSCP > maxDSCP || p.Priority > maxPriority {
				t.Errorf("%+v is not possible", p)
			}
		}
	})
}

// The kernel's own answers for an interface whose driver has no DCB, and for none.
func TestRead(t *testing.T) {
	ns := hosttest.NewNamespace(t)
	ns.Run(t, "ip link add eth1 type veth peer name eth2")
	conn, err := rtnl.Dial(ns.Fd())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for name, want := range map[string]string{"eth1": "its driver does not tell of DCB: not supported", "eth9": "read DCB: no such device"} {
		if got, err := read(conn, name); err == nil || err.Error() != want {
			t.Errorf("%s: %+v, %v; want %q", name, got, err, want)
		}
	}
}
