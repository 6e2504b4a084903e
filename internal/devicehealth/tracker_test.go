// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package devicehealth

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/model"
)

// script plays lines such as "3 bad" (after 3 s a look finds no carrier), "4
// well", "5 move" and "6" (the clock ticks), and returns what changed when.
func script(t *testing.T, text string) string {
	t.Helper()
	tr := tracker{raise: 2 * time.Second, clear: 5 * time.Second, settle: 15 * time.Second, devices: map[string]*device{}}
	start := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	message := "no carrier"
	var out strings.Builder
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		var seconds float64
		if _, err := fmt.Sscan(words[0], &seconds); err != nil {
			t.Fatal(err)
		}
		now := start.Add(time.Duration(seconds * float64(time.Second)))
		switch strings.Join(words[1:], " ") {
		case "bad":
			tr.observe("nic0", findings{model.FaultCarrier: &message}, now)
		case "well":
			tr.observe("nic0", findings{model.FaultCarrier: nil}, now)
		case "not looked at":
			tr.observe("nic0", findings{}, now)
		case "move":
			tr.moving("nic0", now)
		case "forgotten":
			tr.keep(map[string]bool{})
		}
		changed, next := tr.tick(now)
		if changed {
			var since []string
			for _, f := range tr.faults()["nic0"] {
				since = append(since, fmt.Sprintf("%s since %g", f.Kind, f.Since.Sub(start).Seconds()))
			}
			fmt.Fprintf(&out, "%g: [%s]\n", seconds, strings.Join(since, ", "))
		}
		if !next.IsZero() && !next.After(now) {
			t.Errorf("at %g s: to come again at %v, which is past", seconds, next.Sub(start))
		}
	}
	return out.String()
}

func TestFaultsComeAndGo(t *testing.T) {
	for _, tt := range []struct{ name, script, want string }{
		{"lasting", "0 bad\n1\n2", "2: [CarrierLost since 0]\n"},
		{"short", "0 bad\n1 well\n9", ""},
		{"well again", "0 bad\n2\n10 well\n14\n15", "2: [CarrierLost since 0]\n15: []\n"},
		{"flapping is one fault", "0 bad\n2\n3 well\n4 bad\n5 well\n6 bad\n7 well\n11\n12", "2: [CarrierLost since 0]\n12: []\n"},
		{"a flap before starts anew", "0 bad\n1 well\n1.5 bad\n3\n3.5", "3.5: [CarrierLost since 1]\n"},
		{"not looked at stays", "0 bad\n2\n3 not looked at\n30", "2: [CarrierLost since 0]\n"},
		{"our own move", "0 move\n1 bad\n5\n12 well\n30", ""},
		{"our own move of what is broken", "0 move\n1 bad\n14\n15", "15: [CarrierLost since 1]\n"},
		{"moved while faulty", "0 bad\n2\n3 move\n4 bad\n30", "2: [CarrierLost since 0]\n"},
		{"moved while about to be", "0 bad\n1 move\n2\n10 well\n40", ""},
		{"forgotten", "0 bad\n2\n3 forgotten\n9", "2: [CarrierLost since 0]\n"},
		{"always well", "0 well\n9 well", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, script(t, tt.script)); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPCIe(t *testing.T) {
	link := func(width, most, rate, best int) *model.PCILink {
		return &model.PCILink{Width: width, MaxWidth: most, SpeedMTs: rate, MaxSpeedMTs: best}
	}
	for _, tt := range []struct {
		name      string
		own, port *model.PCILink
		want      string // "" is well, "-" is not looked at
	}{
		{"as made", link(16, 16, 32000, 32000), link(16, 16, 32000, 32000), ""},
		{"eight lanes left", link(8, 16, 32000, 32000), link(8, 16, 32000, 32000), "runs x8 at 32 GT/s, made for x16 at 32 GT/s"},
		{"rate of another generation", link(16, 16, 8000, 32000), link(16, 16, 8000, 32000), "runs x16 at 8 GT/s, made for x16 at 32 GT/s"},
		{"a slot of eight lanes", link(8, 16, 32000, 32000), link(8, 8, 32000, 32000), ""},
		{"an old slot", link(16, 16, 16000, 32000), link(16, 16, 16000, 16000), ""},
		{"a card of four lanes in a wide slot", link(4, 4, 2500, 2500), link(4, 16, 2500, 32000), ""},
		{"a virtual machine's port", link(8, 16, 16000, 32000), link(1, 1, 2500, 2500), "-"},
		{"nothing reported", link(0, 0, 0, 0), link(0, 0, 0, 0), "-"},
		{"no link", nil, link(16, 16, 32000, 32000), "-"},
		{"no port", link(8, 16, 32000, 32000), nil, "-"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			port, own, vf := model.PCIAddress{Bus: 1}, model.PCIAddress{Bus: 2}, model.PCIAddress{Bus: 2, Function: 1}
			m, err := model.New(model.Machine{
				Roots: []model.PCIRoot{{Name: "pci0000:00"}},
				Functions: []model.PCIFunction{
					{Address: port, Root: "pci0000:00", Link: tt.port},
					{Address: own, Root: "pci0000:00", Parent: &port, Link: tt.own},
					{Address: vf, Root: "pci0000:00", PhysicalFunction: &own},
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range []model.PCIAddress{own, vf} {
				f := findings{}
				f.pcie(m, a)
				message, looked := f[model.FaultPCIe]
				got := "-"
				if looked {
					got = ""
				}
				if message != nil {
					got = *message
				}
				if tt.want == "-" || tt.want == "" {
					if got != tt.want {
						t.Errorf("%s: got %q, want %q", a, got, tt.want)
					}
				} else if !strings.HasSuffix(got, tt.want) {
					t.Errorf("%s: got %q, want %q", a, got, tt.want)
				}
			}
		})
	}
}

func TestCarrierAndSpeed(t *testing.T) {
	for _, tt := range []struct {
		up    bool
		state string
		want  bool
	}{
		{true, "up", false}, {true, "down", true}, {true, "lowerlayerdown", true}, {true, "dormant", false},
		{true, "unknown", false}, {false, "down", false}, {false, "lowerlayerdown", false},
	} {
		f := findings{}
		f.carrier(tt.up, tt.state)
		if got := f[model.FaultCarrier] != nil; got != tt.want {
			t.Errorf("up %t, %s: fault %t, want %t", tt.up, tt.state, got, tt.want)
		}
	}
	f := findings{}
	if f.speed(100000, 400000); f[model.FaultSpeed] == nil || *f[model.FaultSpeed] != "the link runs at 100000 Mbit/s, usually at 400000 Mbit/s" {
		t.Errorf("a slower link: %v", f[model.FaultSpeed])
	}
	if f.speed(400000, 400000); f[model.FaultSpeed] != nil {
		t.Errorf("the same speed: %s", *f[model.FaultSpeed])
	}
}
