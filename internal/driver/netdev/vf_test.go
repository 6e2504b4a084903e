// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev/hoststate"
	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/model"
)

// withVFs is the lab's machine, whose nic2 is the physical function of nic0 and nic1.
func (l *lab) withVFs(t *testing.T, change func(*model.Machine)) *model.Machine {
	t.Helper()
	m := l.machine(t)
	parts := model.Machine{Roots: []model.PCIRoot{{Name: "pci0000:00"}}}
	pf := mustPCI(t, "0000:01:00.0")
	for i, nic := range m.NICs {
		a := mustPCI(t, fmt.Sprintf("0000:01:1%d.0", i))
		f := model.PCIFunction{Address: a, Root: "pci0000:00", Class: 0x020000, PhysicalFunction: &pf, VFIndex: &i}
		if nic.Interface.Name == "nic2" {
			f = model.PCIFunction{Address: pf, Root: "pci0000:00", Class: 0x020000}
		}
		nic.PCI = &f.Address
		parts.Functions, parts.NICs = append(parts.Functions, f), append(parts.NICs, nic)
	}
	if change != nil {
		change(&parts)
	}
	m, err := model.New(parts)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const vfZero, vfOne = "pci-0000-01-10-0", "pci-0000-01-11-0"

// vfParameters set all that can be set, and setVF is what they make of the first function.
const vfParameters = `{"interface": {"hardwareAddr": "02:00:00:00:aa:01",
	"vf": {"vlan": 100, "vlanQoS": 3, "maxTxRate": 1000, "minTxRate": 10, "spoofCheck": false, "trust": true}}}`

var setVF = rtnl.VFSettings{MAC: ptr("02:00:00:00:aa:01"), VLAN: &rtnl.VFVLAN{ID: 100, QoS: 3, Protocol: 0x8100},
	Rate: &rtnl.VFRate{Min: 10, Max: 1000}, SpoofCheck: ptr(false), Trust: ptr(true)}

// A virtual function is what its claim says while a pod has it, and afterwards what it
// was, also when setting it ends anywhere on the way.
func TestVirtualFunction(t *testing.T) {
	for _, inUse := range []bool{false, true} {
		for changes := -1; changes < 6; changes++ {
			tryVF(t, inUse, changes)
		}
	}
}

func tryVF(t *testing.T, inUse bool, changes int) {
	t.Helper()
	l, pod := newLab(t), hosttest.NewNamespace(t)
	pf := l.newPF(t, inUse, pod)
	before, was := look(t, l.host), pf.read(t).VFs
	r, err := l.driver.Plan(claim(vfParameters, vfZero), l.withVFs(t, nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	pf.edit(t, func(s *pfState) { s.Changes, s.Busy = changes, 1 })
	staged, err := l.driver.Stage(t.Context(), r)
	if err == nil {
		_, err = l.driver.Attach(t.Context(), staged, pod.Path())
	}
	if (err != nil) != (changes >= 0) {
		t.Fatalf("after %d changes: %v", changes, err)
	}
	if err == nil {
		pf.expect(t, "in the pod", []rtnl.VF{{Number: 0, VFSettings: setVF}, was[1]})
	}
	pf.edit(t, func(s *pfState) { s.Changes = -1 })
	for range 2 {
		l.undo(t, r, pod)
		pf.expect(t, fmt.Sprintf("after %d changes, undone", changes), was)
		expect(t, "the host", before, l.host)
	}
}

// A driver that does not free the MAC needs no freeing.
func TestVFWhoseMACIsNotFreed(t *testing.T) {
	l, pod := newLab(t), hosttest.NewNamespace(t)
	pf := l.newPF(t, false, pod)
	pf.edit(t, func(s *pfState) { s.KeepsMAC = true })
	before, was := look(t, l.host), pf.read(t).VFs
	r := l.vfClaim(t, l.withVFs(t, nil), "a", `{"interface": {"hardwareAddr": "02:00:00:00:aa:01"}}`, pod, vfZero)
	if got := pf.read(t).VFs[0].MAC; *got != "02:00:00:00:aa:01" {
		t.Errorf("the administrator's MAC is %s", *got)
	}
	l.undo(t, r, pod)
	pf.expect(t, "undone", was)
	expect(t, "the host", before, l.host)
}

// undo is what becomes of a claim whose pod has gone.
func (l *lab) undo(t *testing.T, r driver.Record, pod *hosttest.Namespace) {
	t.Helper()
	if err := errors.Join(l.driver.Detach(t.Context(), r, pod.Path()), l.driver.Unstage(t.Context(), r)); err != nil {
		t.Error(err)
	}
}

// What nobody could set or put back is refused before anything changes, by its field.
func TestVirtualFunctionRefused(t *testing.T) {
	l := newLab(t)
	pf := l.newPF(t, true)
	for _, c := range []struct {
		device, vf, want string
		change           func(*model.Machine)
	}{
		{"pci-0000-01-00-0", `{"vlan": 1}`, "interface.vf: the NIC is no virtual function: leave it out", nil},
		{vfOne, `{"trust": false}`, "interface.vf.trust: the driver of the physical function does not tell it: leave it out", nil},
		{vfOne, `{"maxTxRate": 1}`, "interface.vf.maxTxRate: the driver of", nil},
		{vfZero, `{"minTxRate": 501}`, "interface.vf.minTxRate: 501 is more than the most that the function may send, 500", nil},
		{vfZero, `{"vlan": 1}`, "interface.vf: its physical function 0000:01:00.0 has no interface on this host",
			func(m *model.Machine) { m.NICs = m.NICs[:2] }},
		{vfZero, `{"vlan": 1}`, "interface.vf: the kernel does not say which virtual function of 0000:01:00.0 it is",
			func(m *model.Machine) { m.Functions[0].VFIndex = nil }},
		{vfZero, `{"vlan": 4095}`, "parameters: interface.vf.vlan: Invalid value: 4095", nil},
		{vfZero, `{"vlan": 1, "vlanQoS": 8}`, "parameters: interface.vf.vlanQoS: Invalid value: 8", nil},
		{vfZero, `{"minTxRate": 2, "maxTxRate": 1}`, "parameters: interface.vf.minTxRate: Invalid value: 2", nil},
		{vfZero, `{"trust": "true"}`, "parameters of the claim: interface.vf.trust: ", nil},
		{vfZero, `{"Trust": true}`, "parameters of the claim: interface.vf.Trust: ", nil},
		{vfZero, `{"trust": null, "trust": true}`, "parameters of the claim: interface.vf.trust: ", nil},
	} {
		_, err := l.driver.Plan(claim(`{"interface": {"vf": `+c.vf+`}}`, c.device), l.withVFs(t, c.change), nil)
		if err == nil || !strings.Contains(err.Error(), "claim default/claim, request nic, device "+c.device+": "+c.want) {
			t.Errorf("%s of %s: %v, want %s", c.vf, c.device, err, c.want)
		}
	}
	if calls := pf.read(t).Calls; calls != 0 {
		t.Errorf("%d changes of a function that was refused", calls)
	}
}

// A claim without a word of the function records none, one that changes a VLAN the one before.
func TestVirtualFunctionLeftAlone(t *testing.T) {
	l := newLab(t)
	l.newPF(t, true)
	plan := func(parameters string) *hoststate.VF {
		r, err := l.driver.Plan(claim(parameters, vfOne), l.withVFs(t, nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		return vfOf(t, r)
	}
	if vf := plan(`{"interface": {"vf": {}}}`); vf != nil {
		t.Errorf("records %v", vf)
	}
	if vf := plan(`{"interface": {"vf": {"vlan": 0}}}`); vf == nil || *vf.Settings.VLAN != (rtnl.VFVLAN{ID: 9, QoS: 1, Protocol: 0x88a8}) {
		t.Errorf("records %v", vf)
	}
}

func vfOf(t *testing.T, r driver.Record) *hoststate.VF {
	t.Helper()
	plan, err := ReadPlan(r.Devices[0])
	if err != nil {
		t.Fatal(err)
	}
	return plan.Host.VF
}
