// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
)

// RDMACounter is a file of an RDMA device's first port and its number.
type RDMACounter struct {
	File  string
	Value uint64
}

// packetCounters are those of packets: hardware's by InfiniBand's own names in counters, and
// those of each driver's in hw_counters (drivers/infiniband/sw/rxe/rxe_hw_counters.c).
var packetCounters = []string{
	"counters/port_rcv_packets", "counters/port_xmit_packets",
	"hw_counters/rcvd_pkts", "hw_counters/sent_pkts", "hw_counters/rx_pkts", "hw_counters/tx_pkts",
}

// ReadRDMAPackets reads the counters of packets that an RDMA device's first port has. The
// kernel shows them in the first network namespace, or in the device's own where each has one.
func ReadRDMAPackets(sys fs.FS, device string) ([]RDMACounter, error) {
	if !fs.ValidPath(device) || path.Base(device) != device || device == "." {
		return nil, fmt.Errorf("RDMA device %q: want a name of /sys/class/infiniband", device)
	}
	r := newReader(sys)
	var found []RDMACounter
	for _, file := range packetCounters {
		name := path.Join(rdmaDir, device, "ports/1", file)
		if value := parsed(r, name, func(text string) (uint64, error) { return strconv.ParseUint(text, 10, 64) }); value != nil {
			found = append(found, RDMACounter{File: file, Value: *value})
		}
	}
	switch {
	case len(r.problems) > 0:
		return nil, fmt.Errorf("%s", r.problems[0])
	case len(found) == 0:
		return nil, fmt.Errorf("RDMA device %s: /sys/%s has no counters of packets for it", device, rdmaDir)
	}
	return found, nil
}
