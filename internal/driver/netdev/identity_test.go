// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/model"
)

// Attach, Detach and Unstage take no other link with the same MAC for the NIC,
// whichever of them came first.
func TestSameMACOnTheHost(t *testing.T) {
	for name, c := range map[string]struct{ before, meanwhile string }{
		"from the start": {before: "ip link add double type veth peer name other\nip link set double address 02:00:00:00:00:00"},
		"meanwhile":      {meanwhile: "ip link add double type veth peer name other\nip link set double address 02:00:00:00:00:00"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.host.Run(t, busy)
			l.host.Run(t, c.before)
			pod := hosttest.NewNamespace(t)
			r := l.plan(t, claim("", "nic0"))
			l.host.Run(t, c.meanwhile)
			before := look(t, l.host)
			for range 2 {
				l.attach(t, r, pod)
			}
			detachAndUnstage(t, l, r, pod.Path())
			expect(t, "the host", before, l.host)
			l.attach(t, r, pod)
			if link := l.nicIn(t, pod, "02:00:00:00:00:00"); link == nil {
				t.Error("it was not attached again")
			}
		})
	}
}

func detachAndUnstage(t *testing.T, l *lab, r driver.Record, netns string) {
	t.Helper()
	for range 2 {
		if err := l.driver.Detach(t.Context(), r, netns); err != nil {
			t.Fatal(err)
		}
		if err := l.driver.Unstage(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

// For a virtual NIC that is neither on the host nor in the pod Detach returns a
// GoneError and changes nothing, not even a link with the same MAC.
func TestVanishedVirtualNIC(t *testing.T) {
	for name, vanish := range map[string]func(t *testing.T, l *lab, pod *hosttest.Namespace){
		"on the host": func(t *testing.T, l *lab, _ *hosttest.Namespace) { l.host.Run(t, "ip link delete nic0") },
		"in the pod": func(t *testing.T, l *lab, pod *hosttest.Namespace) {
			l.attachNIC0(t, pod)
			pod.Run(t, "ip link delete nic0")
		},
		"by its other end": func(t *testing.T, l *lab, pod *hosttest.Namespace) {
			l.attachNIC0(t, pod)
			l.fabric.Run(t, "ip link delete port0")
		},
		"with the pod":            func(t *testing.T, l *lab, pod *hosttest.Namespace) { l.attachNIC0(t, pod); pod.Close() },
		"and the pod never began": func(t *testing.T, l *lab, pod *hosttest.Namespace) { l.host.Run(t, "ip link delete nic0"); pod.Close() },
	} {
		for _, double := range []string{"", "ip link add double type veth peer name other\nip link set double address 02:00:00:00:00:00"} {
			if testing.Short() && double == "" {
				continue // each takes seconds of a virtual machine's
			}
			t.Run(name, func(t *testing.T) {
				l := newLab(t)
				pod := hosttest.NewNamespace(t)
				path := pod.Path()
				r := l.plan(t, claim("", "nic0"))
				l.host.Run(t, double)
				vanish(t, l, pod)
				before := look(t, l.host)
				for range 2 {
					if err := l.driver.Detach(t.Context(), r, path); !driver.OnlyGone(err) || !strings.Contains(err.Error(), "interface nic0, is gone") {
						t.Errorf("got %v, want that nic0 is gone and nothing else", err)
					}
					if err := l.driver.Unstage(t.Context(), r); err != nil {
						t.Error(err)
					}
				}
				expect(t, "the host", before, l.host)
			})
		}
	}
}

func (l *lab) attachNIC0(t *testing.T, pod *hosttest.Namespace) {
	t.Helper()
	l.attach(t, l.plan(t, claim("", "nic0")), pod)
}

// Two links with one MAC, as all ipvlans of a parent are, in one pod: the second
// is not taken for the first, which is there already under another ifindex.
func TestSameMACInOnePod(t *testing.T) {
	l := newLab(t)
	l.host.Run(t, "ip link set nic1 address 02:00:00:00:00:00")
	before := look(t, l.host)
	pod := hosttest.NewNamespace(t)
	for _, line := range strings.Split(strings.TrimSpace(l.host.Run(t, "ip -o link show type veth")), "\n") {
		index, _, _ := strings.Cut(line, ":")
		pod.Run(t, "ip link add taken"+index+" index "+index+" type bridge")
	}
	first, second := l.plan(t, claim("", "nic0")), l.plan(t, claim("", "nic1"))
	l.attach(t, first, pod)
	if s := l.attach(t, second, pod); s[0].InterfaceName != "nic1" {
		t.Errorf("attached %+v, want nic1", s)
	}
	if out := pod.Run(t, "ip -o link show type veth"); strings.Count(out, "\n") != 2 {
		t.Errorf("in the pod:\n%s", out)
	}
	for _, r := range []driver.Record{second, first} {
		if err := l.driver.Detach(t.Context(), r, pod.Path()); err != nil {
			t.Error(err)
		}
	}
	expect(t, "the host", before, l.host)
}

// The PCI address alone identifies the only interface of a function, but not one of
// several, even while the others are in pods.
func TestAlone(t *testing.T) {
	pci, other := mustPCI(t, "0000:91:00.0"), mustPCI(t, "0000:92:00.0")
	first := model.NIC{PCI: &pci}
	second := model.NIC{PCI: &pci, Port: ptr("p1")}
	for _, c := range []struct {
		nic  model.NIC
		all  []model.NIC
		want bool
	}{
		{first, []model.NIC{first, {PCI: &other}}, true},
		{first, []model.NIC{first, second}, false},
		{second, []model.NIC{second}, false},
		{model.NIC{Interface: &model.Interface{Name: "veth0"}}, nil, false},
	} {
		if got := alone(&model.Machine{NICs: c.all}, &c.nic); got != c.want {
			t.Errorf("alone(%s, port %v) = %t", c.nic, c.nic.Port, got)
		}
	}
}
