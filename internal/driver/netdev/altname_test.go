// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"encoding/json"
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/host/hosttest"
)

// Where another link on the host has the NIC's alternative name by now, the NIC comes
// back with all its other state, and the error names the link.
func TestAltNameTakenMeanwhile(t *testing.T) {
	l := newLab(t)
	l.host.Run(t, busy)
	l.host.Run(t, "ip link property add dev nic0 altname fast0 altname fast1")
	before := look(t, l.host)
	pod := hosttest.NewNamespace(t)
	r := l.plan(t, claim(`{"interface": {"name": "net1", "mtu": 1300}}`, "nic0"))
	l.attach(t, r, pod)
	l.host.Run(t, `
		ip link add other type veth peer name fast1
		ip link property add dev other altname fast0`)
	for range 2 {
		err := l.driver.Detach(t.Context(), r, pod.Path())
		for _, want := range []string{
			`verify interface nic0: alternative names: "fast0" is missing: interface other of the host has it by now`,
			`"fast1" is missing: interface fast1 of the host has it by now`,
		} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v\nwant one with %s", err, want)
			}
		}
		nic := l.nicIn(t, l.host, "02:00:00:00:00:00")
		if nic == nil || nic.Name != "nic0" || !nic.Up || *nic.MTU != 1400 || len(nic.AltNames) != 0 {
			t.Fatalf("on the host: %+v", nic)
		}
	}
	l.host.Run(t, "ip link delete other")
	if err := l.driver.Detach(t.Context(), r, pod.Path()); err != nil {
		t.Fatal(err)
	}
	expect(t, "the host", before, l.host)
}

// The NIC's own name may be another link's alternative name when it comes back.
func TestNameTakenAsAltName(t *testing.T) {
	l := newLab(t)
	before := look(t, l.host)
	pod := hosttest.NewNamespace(t)
	r := l.plan(t, claim(`{"interface": {"name": "net1"}}`, "nic0"))
	l.attach(t, r, pod)
	l.host.Run(t, "ip link property add dev nic1 altname nic0")
	err := l.driver.Detach(t.Context(), r, pod.Path())
	if err == nil || !strings.Contains(err.Error(), `the host has another interface "nic0" by now`) {
		t.Errorf("error %v", err)
	}
	if l.nicIn(t, l.host, "02:00:00:00:00:00") == nil {
		t.Fatal("the NIC was lost with the pod")
	}
	l.host.Run(t, "ip link property del dev nic1 altname nic0")
	if err := l.driver.Detach(t.Context(), r, pod.Path()); err != nil {
		t.Fatal(err)
	}
	expect(t, "the host", before, l.host)
}

// A pod's interfaces may be called by what is an alternative name of any of them.
func TestNamedByAnAltName(t *testing.T) {
	l := newLab(t)
	l.host.Run(t, busy)
	l.host.Run(t, `
		ip link property add dev nic0 altname slow altname fast0 altname fast1
		ip link property add dev nic1 altname other`)
	before := look(t, l.host)
	pod := hosttest.NewNamespace(t)
	request := claim(`{"interface": {"name": "fast0"}}`, "nic0", "nic1")
	request.Devices[1].Configs = []driver.Config{{Source: "claim", Raw: []byte(`{"interface": {"name": "fast1"}}`)}}
	r := l.plan(t, request)
	for range 2 {
		s := l.attach(t, r, pod)
		if s[0].InterfaceName != "fast0" || s[1].InterfaceName != "fast1" {
			t.Errorf("status %+v", s)
		}
	}
	if nic := l.nicIn(t, pod, "02:00:00:00:00:00"); len(nic.AltNames) != 1 || nic.AltNames[0] != "slow" {
		t.Errorf("in the pod: %+v", nic)
	}
	for range 2 {
		if err := l.driver.Detach(t.Context(), r, pod.Path()); err != nil {
			t.Fatal(err)
		}
		expect(t, "the host", before, l.host)
	}
}

// A rule without a priority gets the kernel's, once, and one with the priority 0
// gets that, as one of a record of the version before.
func TestRulePriority(t *testing.T) {
	l := newLab(t)
	pod := hosttest.NewNamespace(t)
	before := rulesOf(t, pod)
	r := l.plan(t, claim(`{"rules": [{"source": "10.1.0.0/16", "table": 77}, {"source": "10.2.0.0/16", "table": 78, "priority": 0}]}`, "nic0"))
	for range 2 {
		l.attach(t, r, pod)
		got := pod.Run(t, "ip rule show")
		want := "0:\tfrom all lookup local\n0:\tfrom 10.2.0.0/16 lookup 78 proto static\n32765:\tfrom 10.1.0.0/16 lookup 77 proto static\n"
		if !strings.HasPrefix(got, want) {
			t.Errorf("rules\n%s\nwant\n%s", got, want)
		}
	}
	if err := l.driver.Detach(t.Context(), r, pod.Path()); err != nil {
		t.Fatal(err)
	}
	if got := rulesOf(t, pod); got != before {
		t.Errorf("afterwards\n%s\nwant\n%s", got, before)
	}
	var old Plan
	if err := json.Unmarshal([]byte(`{"pod": {"own": {"rules": [{"priority": 0, "table": 77}]}}}`), &old); err != nil {
		t.Fatal(err)
	}
	if p := old.Pod.Own.Rules[0].Priority; p == nil || *p != 0 {
		t.Errorf("a record of the version before says priority %v, want 0", p)
	}
}
