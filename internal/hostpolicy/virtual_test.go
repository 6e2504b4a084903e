// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostpolicy

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"plumbline.dev/plumbline/internal/model"
)

// withVF is a machine whose first function has a virtual one, with a link.
func withVF(t *testing.T, withheld ...int) *model.Machine {
	t.Helper()
	m := *machine(t, withheld...)
	pf, vf := *m.NICs[0].PCI, *m.NICs[0].PCI
	vf.Device = 0x10
	if m.NICs[0].Withheld == nil {
		m.NICs[0].Withheld, m.NICs[0].WithheldForVFs = ptr("has virtual functions"), true
	}
	m.NICs = append(m.NICs, model.NIC{PCI: &vf, Interface: &model.Interface{Name: "eth0v0", Index: 9}})
	m.Functions = append(m.Functions, model.PCIFunction{
		Address: vf, Root: "pci0000:00", Driver: ptr("mlx5_core"), Class: model.PCIClassNetwork << 16, PhysicalFunction: &pf,
	})
	return indexed(t, m)
}

func TestPlanOfVFs(t *testing.T) {
	of := func(address string, count int) Policy {
		return Policy{Name: "a", Links: []LinkPolicy{{PCIAddress: address, NumVFs: &count}}}
	}
	const pf = "0000:01:00.0"
	shown := of(pf, 4)
	shown.DryRun = true
	withNodes := withVF(t)
	withNodes.NICs[1].Withheld = ptr("carries the default route")
	without := withVF(t)
	without.Functions[0].SRIOV = nil
	disk := machine(t)
	disk.Functions[0].Class = model.PCIClassStorage << 16
	twoPorts := machine(t)
	twoPorts.NICs[1].PCI, twoPorts.NICs[1].Port = twoPorts.NICs[0].PCI, ptr("p1")
	for name, c := range map[string]struct {
		policy  Policy
		machine *model.Machine
		used    string
		state   State
		reason  string
		steps   int
	}{
		"the first":         {of(pf, 4), machine(t), "", Planned, "", 1},
		"others":            {of(pf, 4), withVF(t), "", Planned, "", 1},
		"dry run":           {shown, withVF(t), "", Planned, "", 0},
		"as many as are":    {of(pf, 2), withVF(t), "a claim holds it", Applied, "", 0},
		"too many":          {of(pf, 9), machine(t), "", Refused, "9 is more than /sys/bus/pci/devices/0000:01:00.0/sriov_totalvfs says, 8", 0},
		"no SR-IOV":         {of(pf, 4), without, "", Refused, "the sriov_totalvfs of 0000:01:00.0 is absent or 0", 0},
		"a virtual one":     {of("0000:01:10.0", 4), withVF(t), "", Refused, "link eth0v0 is a virtual function of 0000:01:00.0", 0},
		"no network card":   {of(pf, 4), disk, "", Refused, "link eth0 is of no network controller", 0},
		"the node's link":   {of(pf, 4), withVF(t, 0), "", Refused, "link eth0 is the node's: carries the default route", 0},
		"one is in use":     {of(pf, 4), withVF(t), "a claim holds virtual function 0000:01:10.0", Pending, "a claim holds virtual function 0000:01:10.0", 0},
		"shown in use":      {shown, withVF(t), "a claim holds virtual function 0000:01:10.0", Pending, "a claim holds", 0},
		"one is the node's": {of(pf, 4), withNodes, "", Pending, "virtual function 0000:01:10.0 is the node's: it carries the default route", 0},
		"a second port": {
			Policy{Name: "a", Links: []LinkPolicy{{Interface: "eth1", NumVFs: ptr(4)}}}, twoPorts, "", Refused, "link eth1 is not the first of 0000:01:00.0", 0,
		},
		"a link that is reset": {
			Policy{Name: "a", Links: []LinkPolicy{{PCIAddress: pf, MTU: ptr(9000)}}}, withVF(t), "a claim holds it", Pending, "a claim holds it", 0,
		},
		"a link that goes down": {
			Policy{Name: "a", Links: []LinkPolicy{{PCIAddress: pf, Up: ptr(false)}}}, withVF(t), "a claim holds it", Pending, "a claim holds it", 0,
		},
		"a link that comes up": {
			Policy{Name: "a", Links: []LinkPolicy{{PCIAddress: pf, Up: ptr(true)}}}, withVF(t), "a claim holds it", Planned, "", 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := &fake{values: map[string]string{pf + " numVFs": "2", pf + " up": "x"}, used: map[string]string{pf: c.used}}
			plan := NewPlan([]Policy{c.policy}, c.machine, Record{}, k)
			if len(plan.Steps) != c.steps || len(plan.Results) != 1 {
				t.Fatalf("want %d steps, 1 result: %+v", c.steps, plan)
			}
			if r := plan.Results[0]; r.State != c.state || !strings.Contains(r.Reason, c.reason) || (c.reason == "") != (r.Reason == "") {
				t.Errorf("%+v; want %s because %q", r, c.state, c.reason)
			}
		})
	}
	// A driver's virtual functions are not asked to have some.
	plan := NewPlan([]Policy{{Name: "a", Links: []LinkPolicy{{Driver: "mlx5_core", NumVFs: ptr(4)}}}}, withVF(t), Record{}, &fake{})
	if len(plan.Steps) != 3 || len(plan.Results) != 3 {
		t.Errorf("of a driver: %+v", plan)
	}
}

// What an earlier policy set and cannot be put back is told, by link and setting.
func TestNotPutBack(t *testing.T) {
	const pf = "0000:01:00.0"
	entry := Entry{Link: pf, Field: fieldMTU, Before: "1500", Set: []string{"9000"}}
	for name, c := range map[string]struct {
		machine *model.Machine
		kernel  fake
		state   State
		reason  string
		forget  bool
	}{
		"became the node's":    {machine(t, 0), fake{values: map[string]string{pf + " mtu": "9000"}}, Refused, "not put back: link eth0 is the node's: carries the default route", false},
		"cannot be read":       {machine(t), fake{unread: true}, Failed, "not put back: no such device", false},
		"one is in use":        {machine(t), fake{values: map[string]string{pf + " mtu": "9000"}, used: map[string]string{pf: "a claim holds it"}}, Pending, "not put back: a claim holds it", false},
		"the node's as it was": {machine(t, 0), fake{values: map[string]string{pf + " mtu": "1500"}}, "", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			plan := NewPlan(nil, c.machine, Record{Entries: []Entry{entry}}, &c.kernel)
			if c.reason == "" {
				if len(plan.Results) > 0 || len(plan.Steps) != 1 || plan.Steps[0].Forget != c.forget {
					t.Errorf("%+v", plan)
				}
				return
			}
			if len(plan.Steps) > 0 || len(plan.Results) != 1 {
				t.Fatalf("%+v", plan)
			}
			if r := plan.Results[0]; r.State != c.state || r.Reason != c.reason || r.Link != pf || r.Field != fieldMTU || r.Want != "1500" {
				t.Errorf("%+v", r)
			}
		})
	}
	// What was set on a virtual function goes with it, and its record.
	gone := Entry{Link: "0000:01:10.0/p1", Field: fieldMTU, Before: "1500", Set: []string{"9000"}}
	away := Entry{Link: "eth7", Field: fieldMTU, Before: "1500", Set: []string{"9000"}}
	plan := NewPlan(nil, machine(t), Record{Entries: []Entry{gone, away}}, &fake{})
	if len(plan.Steps) != 1 || !plan.Steps[0].Forget || plan.Steps[0].Link.Key != gone.Link || len(plan.Results) > 0 {
		t.Errorf("%+v", plan)
	}
}

func TestUsed(t *testing.T) {
	h := fixture(t)
	m := withVF(t)
	pf, vf := m.NICs[0], m.NICs[1]
	link, _ := linkOf(&pf)
	used := func(err error, held ...model.NIC) string {
		t.Helper()
		got, err := Live{Host: h, Held: func() ([]model.NIC, error) { return held, err }}.Used(link)
		if err != nil {
			return err.Error()
		}
		return got
	}
	if err := os.Symlink("../"+vf.PCI.String(), filepath.Join(h.Sys, "bus/pci/devices", pf.PCI.String(), "virtfn0")); err != nil {
		t.Fatal(err)
	}
	for want, got := range map[string]string{
		"":                           used(nil, m.NICs[2], model.NIC{}),
		"a claim holds 0000:01:00.0": used(nil, m.NICs[2], pf),
		"a claim holds virtual function 0000:01:10.0":         used(nil, vf),
		"which devices claims hold: record x: unexpected end": used(errors.New("record x: unexpected end")),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	driver := filepath.Join(h.Sys, "bus/pci/devices", vf.PCI.String(), "driver")
	if err := errors.Join(os.MkdirAll(filepath.Dir(driver), 0o755), os.Symlink("../../drivers/vfio-pci", driver)); err != nil {
		t.Fatal(err)
	}
	if got := used(nil); !strings.HasPrefix(got, "virtual function 0000:01:10.0 is bound to vfio-pci") {
		t.Errorf("%q", got)
	}
}

// Claims are kept away for a while before a change is asked for, and until nothing that was
// asked for may yet be done.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pf = "0000:01:00.0"
		m, g := withVF(t), &Gate{}
		m.NICs[0].Withheld = nil
		look := func(wants, unsettled bool, asked ...string) (ready, changed bool) {
			g.Begin(asked)
			if wants {
				ready = g.close(pf)
			}
			return ready, g.End(asked, unsettled)
		}
		if ready, changed := look(false, false); ready || changed || g.Closed() || g.Withhold(m, nil) != m {
			t.Error("closed for nothing")
		}
		if ready, changed := look(true, false); ready || !changed {
			t.Errorf("at once: ready %v, changed %v", ready, changed)
		}
		withheld := func(held ...model.NIC) string {
			var names []string
			for _, n := range g.Withhold(m, held).NICs {
				if n.Withheld != nil && strings.HasPrefix(*n.Withheld, "waits for a HostPolicy to change how many virtual functions "+pf) {
					names = append(names, n.Interface.Name)
				}
			}
			return strings.Join(names, " ")
		}
		if got := withheld(); got != "eth0 eth0v0" {
			t.Errorf("withheld %q", got)
		}
		if got := withheld(m.NICs[1]); got != "eth0" {
			t.Errorf("withheld %q while a claim holds one", got)
		}
		if m.NICs[0].Withheld != nil {
			t.Error("the machine was changed")
		}
		time.Sleep(closedFor - time.Nanosecond)
		if ready, _ := look(true, false); ready {
			t.Error("too early")
		}
		time.Sleep(time.Nanosecond)
		if ready, changed := look(true, true); !ready || changed {
			t.Errorf("in time: ready %v, changed %v", ready, changed)
		}
		if _, changed := look(false, true); changed || !g.Closed() {
			t.Error("opened while it may yet be done")
		}
		if _, changed := look(false, false); !changed || g.Closed() {
			t.Error("stays closed")
		}
		if look(false, false, pf); !g.Closed() {
			t.Error("opened while it is asked for")
		}
		look(false, false)
		// An agent that starts knows what the one before it asked for.
		if _, changed := look(false, true, pf); !changed || !g.Closed() {
			t.Error("open for what was asked for before")
		}
	})
}
