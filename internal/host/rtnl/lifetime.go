// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// forEver is a lifetime without end (INFINITY_LIFE_TIME, net/addrconf.h).
const forEver = math.MaxUint32

// ends reads struct ifa_cacheinfo (include/uapi/linux/if_addr.h): preferred and
// valid, the seconds that are left of an address; two more fields follow. Kept
// as times of the clock, they are right whenever the address comes back.
func ends(info []byte, now time.Time) (preferred, valid *time.Time) {
	if len(info) < 8 {
		return nil, nil
	}
	return end(info[0:4], now), end(info[4:8], now)
}

func end(seconds []byte, now time.Time) *time.Time {
	n := binary.NativeEndian.Uint32(seconds)
	if n == forEver {
		return nil
	}
	return new(now.Add(time.Duration(n) * time.Second).UTC().Truncate(time.Second))
}

// lifetimes are the seconds that are left; valid is 0 when the time is over.
func lifetimes(preferred, valid *time.Time, now time.Time) (preferredFor, validFor uint32) {
	validFor = left(valid, now)
	// The kernel refuses an address that is preferred for longer than valid.
	return min(left(preferred, now), validFor), validFor
}

func left(end *time.Time, now time.Time) uint32 {
	if end == nil {
		return forEver
	}
	seconds := math.Ceil(end.Sub(now).Seconds())
	return uint32(max(0, min(seconds, forEver-1)))
}

func cacheInfo(preferred, valid uint32) *nl.RtAttr {
	info := make([]byte, unix.SizeofIfaCacheinfo)
	binary.NativeEndian.PutUint32(info[0:4], preferred)
	binary.NativeEndian.PutUint32(info[4:8], valid)
	return nl.NewRtAttr(unix.IFA_CACHEINFO, info)
}
