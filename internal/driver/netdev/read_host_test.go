// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/host/hosttest"
)

// Dumps of the whole host are made once for all NICs of a claim: each further NIC costs
// its own requests only, and staging one that needs nothing costs none.
func TestOneLookForAllNICsOfAClaim(t *testing.T) {
	l := &lab{host: hosttest.NewNamespace(t)}
	l.host.Run(t, quiet)
	for i := range 4 {
		l.host.Run(t, fmt.Sprintf("ip link add nic%[1]d address 02:00:00:00:00:0%[1]d type veth peer name port%[1]d", i))
	}
	l.driver = l.newDriver(t)
	spent := func(work func()) int64 {
		before := l.driver.Counts().Messages
		work()
		return l.driver.Counts().Messages - before
	}
	cost := func(nics ...string) (plan, stage int64) {
		var r driver.Record
		plan = spent(func() { r = l.plan(t, claim("", nics...)) }) - spent(func() { l.machine(t) })
		stage = spent(func() {
			if _, err := l.driver.Stage(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		})
		return plan, stage
	}
	// Neighbours, proxies and stations, queueing disciplines, and filters.
	const ofOneNIC = 5
	planOne, stageOne := cost("nic0")
	planFour, stageFour := cost("nic0", "nic1", "nic2", "nic3")
	if further := planFour - planOne; further > 3*ofOneNIC {
		t.Errorf("three further NICs cost %d messages to plan, want %d", further, 3*ofOneNIC)
	}
	if stageFour != stageOne {
		t.Errorf("staging costs %d messages for four NICs and %d for one: want one look for all", stageFour, stageOne)
	}
}

// Staging that does nothing leaves the record equal, so that it is not journaled again.
func TestStagingNothingLeavesTheRecord(t *testing.T) {
	l := newLab(t)
	l.host.Run(t, `
		ip addr add 10.33.0.2/24 dev nic0
		ip link set nic0 up
		ip route add 10.34.0.0/24 via 10.33.0.1 dev nic0`)
	r := l.plan(t, claim(`{"interface": {"mtu": 1400}}`, "nic0", "nic1"))
	staged, err := l.driver.Stage(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, staged); diff != "" {
		t.Errorf("the record changed:\n%s", diff)
	}
}

// A brief plan lacks the host's settings and nothing else.
func TestBriefPlan(t *testing.T) {
	l := newLab(t)
	l.host.Run(t, `
		ip addr add 10.33.0.2/24 dev nic0
		ip link set nic0 up
		ip route add 10.34.0.0/24 via 10.33.0.1 dev nic0`)
	for _, d := range l.plan(t, claim(`{"interface": {"mtu": 1400, "name": "net1"}}`, "nic0")).Devices {
		want, err := ReadPlan(d)
		if err != nil {
			t.Fatal(err)
		}
		got, err := readBrief(d)
		if err != nil {
			t.Fatal(err)
		}
		if len(want.Host.Sysctls) == 0 || len(want.Host.Features) == 0 {
			t.Fatal("nothing to leave out")
		}
		want.Host.Sysctls, want.Host.Features = nil, nil
		if !reflect.DeepEqual(want, got) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}
	if _, err := readBrief(driver.DeviceRecord{Plan: []byte(`{"host": "x"}`)}); err == nil {
		t.Error("no error")
	}
	if p, err := readBrief(driver.DeviceRecord{Plan: []byte(`{"nic": {}}`)}); err != nil || p.Host != nil {
		t.Errorf("without an interface: %+v, %v", p.Host, err)
	}
}
