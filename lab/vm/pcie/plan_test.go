// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package pcie

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/lab/vm/shape"
)

func address(t *testing.T, s string) model.PCIAddress {
	t.Helper()
	a, err := model.ParsePCIAddress(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// machineOf is a machine with roots like "pci0000:8c" or, with a switch,
// "pci0000:8c 0000:8d:00.0", and NICs like "0000:91:00.0 pci0000:8c".
func machineOf(t *testing.T, roots []string, nics ...string) *shape.Shape {
	t.Helper()
	s := &shape.Shape{Name: "m", Arch: "x86_64"}
	for _, text := range roots {
		name, up, ok := strings.Cut(text, " ")
		domain, bus, err := shape.ParseRoot(name)
		if err != nil {
			t.Fatal(err)
		}
		r := shape.Root{Domain: domain, Bus: bus}
		if ok {
			a := address(t, up)
			r.SwitchUp = &a
		}
		s.Roots = append(s.Roots, r)
	}
	for _, text := range nics {
		at, root, _ := strings.Cut(text, " ")
		s.Devices = append(s.Devices, shape.Device{Kind: shape.NIC, Name: "nic", Address: address(t, at), Root: root})
	}
	return s
}

func nic(shape.Device) Device { return Device{Driver: "nic"} }

func TestPlan(t *testing.T) {
	tests := []struct {
		name  string
		roots []string
		nics  []string
		want  []string
	}{
		{
			name: "port", roots: []string{"pci0000:11"}, nics: []string{"0000:12:00.0 pci0000:11"},
			want: []string{
				"pxb-pcie,id=root11,bus=pcie.0,addr=01.0,bus_nr=0x11",
				"pcie-root-port,id=port12,bus=root11,addr=00.0,chassis=1,hotplug=off",
				"nic,bus=port12,addr=00.0",
			},
		},
		{
			name: "gap and functions", roots: []string{"pci0000:5b"},
			nics: []string{"0000:5f:00.1 pci0000:5b", "0000:5f:00.0 pci0000:5b"},
			want: []string{
				"pxb-pcie,id=root5b,bus=pcie.0,addr=01.0,bus_nr=0x5b",
				"pcie-root-port,id=port5c,bus=root5b,addr=00.0,chassis=1,hotplug=off,bus-reserve=2",
				"pcie-root-port,id=port5f,bus=root5b,addr=01.0,chassis=2,hotplug=off",
				"nic,bus=port5f,addr=00.0,multifunction=on",
				"nic,bus=port5f,addr=00.1",
			},
		},
		{
			name: "function 0 left out", roots: []string{"pci0000:11"}, nics: []string{"0000:12:00.2 pci0000:11"},
			want: []string{
				"pxb-pcie,id=root11,bus=pcie.0,addr=01.0,bus_nr=0x11",
				"pcie-root-port,id=port12,bus=root11,addr=00.0,chassis=1,hotplug=off",
				"pci-testdev,bus=port12,addr=00.0,multifunction=on",
				"nic,bus=port12,addr=00.2",
			},
		},
		{
			name: "switch behind a gap, gap below it, port beside it", roots: []string{"pci0000:20 0000:23:00.0"},
			nics: []string{"0000:21:00.0 pci0000:20", "0000:26:00.0 pci0000:20"},
			want: []string{
				"pxb-pcie,id=root20,bus=pcie.0,addr=01.0,bus_nr=0x20",
				"pcie-root-port,id=port21,bus=root20,addr=00.0,chassis=1,hotplug=off",
				"nic,bus=port21,addr=00.0",
				"pcie-root-port,id=port22,bus=root20,addr=01.0,chassis=2,hotplug=off",
				"pcie-root-port,id=port23,bus=root20,addr=02.0,chassis=3,hotplug=off",
				"x3130-upstream,id=switch23,bus=port23,addr=00.0",
				"xio3130-downstream,id=port25,bus=switch23,addr=00.0,chassis=4,hotplug=off",
				"xio3130-downstream,id=port26,bus=switch23,addr=01.0,chassis=5,hotplug=off",
				"nic,bus=port26,addr=00.0",
			},
		},
		{
			name: "bus 00", roots: []string{"pci0000:00"},
			nics: []string{"0000:00:01.0 pci0000:00", "0000:01:00.0 pci0000:00"},
			want: []string{
				"nic,bus=pcie.0,addr=01.0",
				"pcie-root-port,id=port01,bus=pcie.0,addr=02.0,chassis=1,hotplug=off",
				"nic,bus=port01,addr=00.0",
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			plan, err := New(machineOf(t, test.roots, test.nics...), nic, nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range plan.Devices {
				got = append(got, d.String())
			}
			if g, w := strings.Join(got, "\n"), strings.Join(test.want, "\n"); g != w {
				t.Errorf("got\n%s\nwant\n%s", g, w)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	many := []string{}
	roots := []string{}
	for _, bus := range []string{"10", "20", "30", "40", "50", "60", "70", "80", "90", "a0", "b0", "c0", "d0"} {
		roots = append(roots, "pci0000:"+bus)
		many = append(many, "0000:"+bus[:1]+"1:00.0 pci0000:"+bus)
	}
	tests := []struct {
		name  string
		roots []string
		nics  []string
		want  string
	}{
		{"no roots", nil, nil, "lists no PCIe root"},
		{"domain", []string{"pci0001:00"}, []string{"0001:00:00.0 pci0001:00"}, "PCI domain 0001"},
		{"unknown root", []string{"pci0000:10"}, []string{"0000:21:00.0 pci0000:20"}, "not among"},
		{"bus below root", []string{"pci0000:10"}, []string{"0000:02:00.0 pci0000:10"}, "only counts upwards"},
		{"roots overlap", []string{"pci0000:10", "pci0000:12"}, []string{"0000:14:00.0 pci0000:10"}, "already belong"},
		{"slot behind a port", []string{"pci0000:10"}, []string{"0000:11:02.0 pci0000:10"}, "only device 00 exists"},
		{"on the root bus", []string{"pci0000:10"}, []string{"0000:10:1c.0 pci0000:10"}, "nothing but bridges"},
		{"q35's own", []string{"pci0000:00"}, []string{"0000:00:1f.0 pci0000:00"}, "devices of its own"},
		{"switch's bus", []string{"pci0000:10 0000:11:00.0"}, []string{"0000:11:00.0 pci0000:10"}, "upstream port"},
		{"switch's inside", []string{"pci0000:10 0000:11:00.0"}, []string{"0000:12:01.0 pci0000:10"}, "internal bus"},
		{"twice", []string{"pci0000:10"}, []string{"0000:11:00.0 pci0000:10", "0000:11:00.0 pci0000:10"}, "the same function"},
		{"I/O space", roots, many, "I/O space has room for 12"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := New(machineOf(t, test.roots, test.nics...), nic, nil)
			var refusal *Refusal
			if !errors.As(err, &refusal) || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "--simulate m=1") {
				t.Errorf("got %v, want a refusal with %q", err, test.want)
			}
		})
	}
}

// TestFirmwareCountsTheSame replays firmware's numbering over a plan and
// compares it with the machine.
func TestFirmwareCountsTheSame(t *testing.T) {
	s := machineOf(t, []string{"pci0000:00", "pci0000:20 0000:23:00.0", "pci0000:8c 0000:8d:00.0"},
		"0000:02:00.0 pci0000:00", "0000:21:00.0 pci0000:20", "0000:27:00.0 pci0000:20", "0000:92:00.0 pci0000:8c", "0000:8f:00.0 pci0000:8c")
	plan, err := New(s, nic, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := enumerate(t, plan.Devices)
	for _, d := range s.Devices {
		if !got[d.Address.String()] {
			t.Errorf("nothing at %s; devices are at %v", d.Address, got)
		}
	}
}

// enumerate numbers buses as SeaBIOS does (src/fw/pciinit.c).
func enumerate(t *testing.T, devices []Device) map[string]bool {
	t.Helper()
	prop := func(d Device, key string) string {
		for _, p := range d.Props {
			if p.Key == key {
				return p.Value
			}
		}
		return ""
	}
	number := func(text string, base int) int {
		if text == "" {
			return 0
		}
		n, err := strconv.ParseInt(strings.TrimPrefix(text, "0x"), base, 32)
		if err != nil {
			t.Fatal(err)
		}
		return int(n)
	}
	found := map[string]bool{}
	next := 0
	var walk func(id string, bus int)
	walk = func(id string, bus int) {
		below := slices.Clone(devices)
		slices.SortStableFunc(below, func(a, b Device) int { return strings.Compare(prop(a, "addr"), prop(b, "addr")) })
		for _, d := range below {
			if prop(d, "bus") != id {
				continue
			}
			switch d.Driver {
			case "pxb-pcie":
			case "pcie-root-port", "x3130-upstream", "xio3130-downstream":
				next++
				secondary := next
				walk(d.ID, secondary)
				next = max(next, secondary+number(prop(d, "bus-reserve"), 10))
			default:
				found[fmt.Sprintf("0000:%02x:%s", bus, prop(d, "addr"))] = true
			}
		}
	}
	walk("pcie.0", 0)
	for next < 0xff {
		next++
		for _, d := range devices {
			if d.Driver == "pxb-pcie" && number(prop(d, "bus_nr"), 16) == next {
				walk(d.ID, next)
			}
		}
	}
	return found
}
