// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"plumbline.dev/plumbline/internal/model"
)

func machineWith(t *testing.T, nics ...model.NIC) *model.Machine {
	t.Helper()
	m, err := model.New(model.Machine{NICs: nics})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func nic(name string, index int, state string, addresses ...string) model.NIC {
	i := &model.Interface{Name: name, Index: index, State: &state}
	for _, a := range addresses {
		i.Addresses = append(i.Addresses, netip.MustParsePrefix(a))
	}
	return model.NIC{Interface: i}
}

// stateOf is what is shown of eth0, "" for nothing.
func stateOf(p *MergedMachine) string {
	for _, n := range p.Current().NICs {
		if n.Interface.Name == "eth0" {
			return *n.Interface.State
		}
	}
	return ""
}

func TestMergedMachineKeepsWhatPodsHold(t *testing.T) {
	up, held := nic("eth0", 7, "up", "10.0.0.1/24"), []model.NIC{nic("eth0", 7, "up", "10.0.0.1/24")}
	for _, tt := range []struct {
		name string
		// steps are scans and records, one after the other.
		steps []func(t *testing.T, p *MergedMachine) error
		want  string
	}{
		{
			"gone from the host",
			[]func(*testing.T, *MergedMachine) error{
				func(t *testing.T, p *MergedMachine) error { return p.Update(machineWith(t, up), held) },
				func(t *testing.T, p *MergedMachine) error { return p.Update(machineWith(t), held) },
			},
			"up",
		},
		{
			"back, its link still training",
			[]func(*testing.T, *MergedMachine) error{
				func(t *testing.T, p *MergedMachine) error { return p.Update(machineWith(t), held) },
				func(t *testing.T, p *MergedMachine) error {
					return p.Update(machineWith(t, nic("eth0", 9, "down")), nil)
				},
			},
			"up",
		},
		{
			"back as it was, then changed",
			[]func(*testing.T, *MergedMachine) error{
				func(t *testing.T, p *MergedMachine) error { return p.Update(machineWith(t), held) },
				func(t *testing.T, p *MergedMachine) error {
					return p.Update(machineWith(t, nic("eth0", 9, "up", "10.0.0.1/24")), nil)
				},
				func(t *testing.T, p *MergedMachine) error {
					return p.Update(machineWith(t, nic("eth0", 9, "down")), nil)
				},
			},
			"down",
		},
		{
			"back, and other than before for good",
			[]func(*testing.T, *MergedMachine) error{
				func(t *testing.T, p *MergedMachine) error { return p.Update(machineWith(t), held) },
				func(t *testing.T, p *MergedMachine) error {
					return p.Update(machineWith(t, nic("eth0", 9, "down")), nil)
				},
				func(t *testing.T, p *MergedMachine) error {
					time.Sleep(time.Until(p.Due()))
					return p.Remerge(nil)
				},
			},
			"down",
		},
		{
			"never back",
			[]func(*testing.T, *MergedMachine) error{
				func(t *testing.T, p *MergedMachine) error { return p.Update(machineWith(t), held) },
				func(t *testing.T, p *MergedMachine) error { return p.Remerge(nil) },
				func(t *testing.T, p *MergedMachine) error {
					time.Sleep(time.Until(p.Due()))
					return p.Remerge(nil)
				},
			},
			"",
		},
		{
			"taken again before it settled",
			[]func(*testing.T, *MergedMachine) error{
				func(t *testing.T, p *MergedMachine) error { return p.Update(machineWith(t), held) },
				func(t *testing.T, p *MergedMachine) error {
					return p.Update(machineWith(t, nic("eth0", 9, "down")), nil)
				},
				func(t *testing.T, p *MergedMachine) error { return p.Remerge(held) },
				func(t *testing.T, p *MergedMachine) error {
					time.Sleep(2 * settle)
					return p.Remerge(held)
				},
			},
			"up",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &MergedMachine{}
				for i, step := range tt.steps {
					if err := step(t, p); err != nil {
						t.Fatalf("step %d: %v", i, err)
					}
				}
				if got := stateOf(p); got != tt.want {
					t.Errorf("eth0 is shown as %q, want %q", got, tt.want)
				}
			})
		})
	}
}

// A NIC that came back is shown as before, but for what must be true at once.
func TestMergedMachineOfReturnedNICIsSafe(t *testing.T) {
	p := &MergedMachine{}
	if err := p.Update(machineWith(t), []model.NIC{nic("eth0", 7, "up")}); err != nil {
		t.Fatal(err)
	}
	back := nic("eth0", 9, "down")
	reason := "carries the default route"
	back.Withheld = &reason
	if err := p.Update(machineWith(t, back), nil); err != nil {
		t.Fatal(err)
	}
	got := p.Current().NICs[0]
	if got.Interface.Index != 9 || got.Withheld == nil || *got.Interface.State != "up" {
		t.Errorf("got ifindex %d, withheld %v, %s; want 9, for its default route, up", got.Interface.Index, got.Withheld, *got.Interface.State)
	}
}

func TestMergedMachineWithholdsBehindTheHeld(t *testing.T) {
	var seen []model.NIC
	p := &MergedMachine{Withhold: func(m *model.Machine, held []model.NIC) *model.Machine {
		seen = held
		return m
	}}
	if err := p.Update(machineWith(t, nic("eth1", 3, "up")), []model.NIC{nic("eth0", 7, "up")}); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 1 || seen[0].Interface.Name != "eth0" {
		t.Errorf("told of held %v, want eth0", seen)
	}
}
