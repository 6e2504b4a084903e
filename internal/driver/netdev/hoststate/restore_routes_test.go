// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hoststate

import (
	"encoding/binary"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/rtnl"
)

// A host that takes part in routing has thousands of routes through a NIC: what
// it costs to find those that are missing grows with them, and not with their
// square.
func TestMissingRoutesAreFoundInOnePass(t *testing.T) {
	links := []rtnl.Link{{Name: "nic0", Index: 5}, {Name: "nic1", Index: 6}}
	cost := func(n int) float64 {
		want := &State{Routes: routes(n)}
		v := &dumps{links: links}
		return testing.AllocsPerRun(1, func() {
			missing, err := missingRoutes(v, 5, want)
			if err != nil || len(missing) != n {
				t.Fatalf("%d of %d routes are missing, %v", len(missing), n, err)
			}
		})
	}
	few, many := cost(100), cost(800)
	if many > 12*few {
		t.Errorf("100 routes cost %.0f allocations, 800 cost %.0f", few, many)
	}
}

// routes are as many of IPv6, every other through a second link as well.
func routes(n int) []Route {
	var list []Route
	for i := range n {
		body := make([]byte, unix.SizeofRtMsg)
		body[0], body[1], body[7] = unix.AF_INET6, 128, unix.RTN_UNICAST
		dst := make([]byte, 16)
		dst[0] = 0xfd
		binary.BigEndian.PutUint32(dst[12:], uint32(i))
		body = appendAttribute(body, unix.RTA_DST, dst)
		r := Route{}
		if i%2 == 0 {
			body = appendAttribute(body, unix.RTA_OIF, make([]byte, 4))
		} else {
			hops := append(hop(0), hop(9)...)
			body = appendAttribute(body, unix.RTA_MULTIPATH, hops)
			r.Others = []OtherLink{{Index: 9, Name: "nic1"}}
		}
		r.Saved = rtnl.Saved{Text: fmt.Sprintf("fd00::%x", i), Message: body}
		list = append(list, r)
	}
	return list
}

// hop is struct rtnexthop (include/uapi/linux/rtnetlink.h).
func hop(index uint32) []byte {
	b := binary.NativeEndian.AppendUint16(nil, unix.SizeofRtNexthop)
	return binary.NativeEndian.AppendUint32(append(b, 0, 0), index)
}

func appendAttribute(body []byte, kind uint16, value []byte) []byte {
	body = binary.NativeEndian.AppendUint16(body, uint16(unix.SizeofRtAttr+len(value)))
	return append(binary.NativeEndian.AppendUint16(body, kind), value...)
}
