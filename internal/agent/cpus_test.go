// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/journal"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

func TestParseCPUMode(t *testing.T) {
	for words, want := range map[[2]string]slicecodec.CPUMode{
		{"grouped", "numanode"}:    slicecodec.PerNUMANode,
		{"grouped", "socket"}:      slicecodec.PerSocket,
		{"grouped", "machine"}:     slicecodec.WholeMachine,
		{"individual", "numanode"}: slicecodec.SingleCPUs,
	} {
		if got, err := ParseCPUMode(words[0], words[1]); err != nil || got != want {
			t.Errorf("%v: got %q, %v, want %q", words, got, err, want)
		}
	}
	for words, want := range map[[2]string]string{
		{"single", "numanode"}: `--cpu-device-mode="single": want grouped or individual`,
		{"grouped", "die"}:     `--group-by="die": want numanode, socket, machine`,
	} {
		if _, err := ParseCPUMode(words[0], words[1]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q", words, err, want)
		}
	}
}

// CPUs can be put beside a NIC of another claim of the pod, if that is prepared.
func TestBesides(t *testing.T) {
	records, err := journal.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, pod := range map[string]string{"mine": "a", "others": "b"} {
		r := driver.Record{
			Version: driver.RecordVersion, Driver: slicecodec.DriverNet, BootID: "boot", Claim: agenttest.ClaimFor(name, "").ClaimRef,
			Pods: agenttest.ClaimFor(pod, "").Pods, Devices: []driver.DeviceRecord{{Device: "nic-of-" + name, Plan: []byte("{}")}},
		}
		if err := records.Put(r); err != nil {
			t.Fatal(err)
		}
	}
	c := agenttest.ClaimFor("a", "cpudevmachine")
	for mode, want := range map[slicecodec.CPUMode]string{
		slicecodec.WholeMachine: "[{dra.net nic-of-mine}]", slicecodec.PerSocket: "[{dra.net nic-of-mine}]", slicecodec.PerNUMANode: "[]",
	} {
		if got := fmt.Sprint(besides(mode, records)(c).Beside); got != want {
			t.Errorf("mode %s: got %s, want %s", mode, got, want)
		}
	}
}
