// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"encoding/json"
	"testing"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev"
	"plumbline.dev/plumbline/internal/model"
)

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
