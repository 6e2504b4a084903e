// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev"
	"plumbline.dev/plumbline/internal/model"
)

// What nobody can read is told as the agent starts, before somebody asks for a claim.
func TestUnreadableRecordsAreToldAtStart(t *testing.T) {
	n := newNode(t)
	p := n.start(&agenttest.FakeDriver{DriverName: "dra.net"})
	p.HeldNICs = netdev.HeldNICs
	for name, plan := range map[string]string{"readable": `{"nic": {}}`, "no-plan": `"no plan"`, "rebooted": `"no plan"`} {
		c := agenttest.ClaimFor(name, "nic-"+name)
		r := driver.Record{
			Version: driver.RecordVersion, BootID: p.BootID, Driver: p.Name(), Claim: c.ClaimRef, Pods: c.Pods,
			Devices: []driver.DeviceRecord{{Device: "nic-" + name, Plan: json.RawMessage(plan)}},
		}
		if name == "rebooted" {
			r.BootID = "an-earlier-boot"
		}
		if err := p.Journal.Put(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(n.journalPath, "dra.net", "half-uid.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	var told []string
	p.Unreadable = func(problem error) { told = append(told, problem.Error()) }
	if err := p.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(told) != 2 || !strings.Contains(told[0], "half-uid.json: ") || !strings.Contains(told[0], "no part of a device is given to another") ||
		!strings.Contains(told[1], "/no-plan: device nic-no-plan: read its plan: ") || !strings.Contains(told[1], "no other is prepared") {
		t.Errorf("told %q, want the file that is half, and the claim whose plan is none", told)
	}
}

func TestHeldNICsOfThisBootThatCanBeRead(t *testing.T) {
	n := newNode(t)
	p := n.start(&agenttest.FakeDriver{DriverName: "dra.net"})
	p.HeldNICs = netdev.HeldNICs
	for name, change := range map[string]func(*driver.Record){
		"held":       func(*driver.Record) {},
		"rebooted":   func(r *driver.Record) { r.BootID = "an-earlier-boot" },
		"unreadable": func(r *driver.Record) { r.Devices[0].Plan = json.RawMessage(`"no plan"`) },
	} {
		c := agenttest.ClaimFor(name, "nic-"+name)
		plan, err := json.Marshal(netdev.Plan{NIC: model.NIC{Interface: &model.Interface{Name: name}}})
		if err != nil {
			t.Fatal(err)
		}
		r := driver.Record{
			Version: driver.RecordVersion, BootID: p.BootID, Driver: p.Name(), Claim: c.ClaimRef, Pods: c.Pods,
			Devices: []driver.DeviceRecord{{Device: "nic-" + name, Plan: plan}},
		}
		change(&r)
		if err := p.Journal.Put(r); err != nil {
			t.Fatal(err)
		}
	}
	held, err := p.Held(t.Context())
	if err != nil || len(held) != 1 || held[0].Interface.Name != "held" {
		t.Errorf("got %v, %v; want the one of this boot that can be read", held, err)
	}
}
