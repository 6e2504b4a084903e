// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strings"
	"testing"
	"time"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/model"
)

func TestFaultsOfHeldDevices(t *testing.T) {
	s := &apiServer{}
	w := startWriter(t, s)
	faults := map[string][]model.Fault{
		"nic0": {{Kind: model.FaultCarrier, Message: "no carrier", Since: time.Unix(1777863721, 0)}},
		"nic9": {{Kind: model.FaultPCIe, Message: "runs x8", Since: time.Unix(1777863721, 0)}},
	}
	w.SetFaults("dra.net", faults) // nobody holds a device yet
	w.Set(Report{Driver: "dra.net", Claim: written, Devices: []DeviceState{{Pool: "node", Device: "nic0", Reason: "Attached"}}})
	agenttest.Eventually(t, "the fault is written with the device", func() bool { return len(s.seen()) == 1 })
	w.SetFaults("dra.net", faults)
	w.SetFaults("dra.cpu", nil)
	w.SetFaults("dra.net", map[string][]model.Fault{"nic9": faults["nic9"]})
	agenttest.Eventually(t, "the recovery is written", func() bool { return len(s.seen()) == 2 })
	want := writtenPath + " nic0 Ready=True:Attached NetworkReady=True:Attached" +
		" Healthy=False:CarrierLost:CarrierLost since 2026-05-04T03:02:01Z: no carrier\n" +
		writtenPath + " nic0 Ready=True:Attached NetworkReady=True:Attached"
	if got := strings.Join(s.seen(), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
