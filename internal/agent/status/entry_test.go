// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plumbline.dev/plumbline/internal/driver"
)

// What the driver says of a device is said beside what was put right.
func TestNotesOfAnAttachedDevice(t *testing.T) {
	r := driver.Record{Devices: []driver.DeviceRecord{{Device: "nic0"}, {Device: "nic1"}}}
	found := []driver.DeviceStatus{{Device: "nic1", Note: "the lease ran out"}}
	for note, want := range map[string]string{"": "the lease ran out", "put right": "put right; the lease ran out"} {
		report := OfAttached(r, Attached, note, found)
		if report.Devices[0].Note != note || report.Devices[1].Note != want {
			t.Errorf("notes %q and %q, want %q and %q", report.Devices[0].Note, report.Devices[1].Note, note, want)
		}
	}
}

// The record of an agent before this one says of an RDMA device only which files CDI gives,
// and the condition that tells of it stays.
func TestRDMAOfAnOlderRecord(t *testing.T) {
	node := func(path string) driver.Edits { return driver.Edits{DeviceNodes: []driver.DeviceNode{{Path: path}}} }
	for name, test := range map[string]struct {
		device driver.DeviceRecord
		want   bool
	}{
		"said":                {driver.DeviceRecord{RDMA: true}, true},
		"of an older agent":   {driver.DeviceRecord{Edits: node("/dev/infiniband/uverbs0")}, true},
		"no RDMA device":      {driver.DeviceRecord{}, false},
		"another device file": {driver.DeviceRecord{Edits: node("/dev/net/tun")}, false},
	} {
		entry := entryOf("dra.net", Of(driver.Record{Devices: []driver.DeviceRecord{test.device}}, Attached, nil).Devices[0], wanted{since: time.Now()})
		if got := slices.ContainsFunc(entry.Conditions, func(c metav1.Condition) bool { return c.Type == conditionRDMAReady }); got != test.want {
			t.Errorf("%s: condition %t, want %t", name, got, test.want)
		}
	}
}

// Whatever a pod did to its interface, the claim's status stays one that the API
// server takes.
func TestEntryStaysWithinTheAPI(t *testing.T) {
	network := &driver.DeviceStatus{InterfaceName: "net1", HardwareAddress: "02:00:00:00:00:01"}
	for i := range 40 {
		network.IPs = append(network.IPs, fmt.Sprintf("10.0.0.%d/24", i+1))
	}
	d := DeviceState{Pool: "node", Device: "nic0", Reason: Attached, Network: network, Note: strings.Repeat("°", maxMessage)}
	want := wanted{since: time.Now(), aligned: &Alignment{
		AsClaimed: Answer{Status: metav1.ConditionFalse, Reason: "Misaligned", Message: strings.Repeat("\xff", maxMessage)},
		Aligned:   Answer{Status: metav1.ConditionTrue, Reason: "Nearest", Message: strings.Repeat("\xff", maxMessage)},
	}}
	entry := entryOf("dra.net", d, want)
	if got := entry.NetworkData.IPs; len(got) != resourceapi.NetworkDeviceDataMaxIPs || got[0] != "10.0.0.1/24" {
		t.Errorf("%d addresses, from %v on", len(got), got[:1])
	}
	for _, c := range entry.Conditions {
		if len(c.Message) > maxMessage || strings.ToValidUTF8(c.Message, "") != c.Message {
			t.Errorf("condition %s: %d bytes", c.Type, len(c.Message))
		}
	}
}
