// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestReadRDMAPackets(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	sys := fstest.MapFS{
		"class/infiniband/rxe0/ports/1/hw_counters/rcvd_pkts":        file("12\n"),
		"class/infiniband/rxe0/ports/1/hw_counters/sent_pkts":        file("34\n"),
		"class/infiniband/mlx5_0/ports/1/counters/port_rcv_packets":  file("5\n"),
		"class/infiniband/mlx5_0/ports/1/counters/port_xmit_packets": file("18446744073709551615\n"),
		"class/infiniband/mlx5_1/ports/1/counters/port_rcv_packets":  file("N/A (no PMA)\n"),
		"class/infiniband/siw0/ports/1/state":                        file("4: ACTIVE\n"),
	}
	for device, want := range map[string][]RDMACounter{
		"rxe0":   {{"hw_counters/rcvd_pkts", 12}, {"hw_counters/sent_pkts", 34}},
		"mlx5_0": {{"counters/port_rcv_packets", 5}, {"counters/port_xmit_packets", 1<<64 - 1}},
	} {
		got, err := ReadRDMAPackets(sys, device)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", device, err, diff)
		}
	}
	for device, want := range map[string]string{
		"siw0": "has no counters", "gone": "has no counters", "../rxe0": "want a name", ".": "want a name", "": "want a name",
		"rxe0/ports": "want a name", "mlx5_1": "port_rcv_packets",
	} {
		if got, err := ReadRDMAPackets(sys, device); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want %q", device, got, err, want)
		}
	}
}
