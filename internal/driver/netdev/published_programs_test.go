// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/hosttest/bpftest"
	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// watch is the inventory of nic0, scanned again every resync.
func (l *lab) watch(t *testing.T, resync time.Duration) <-chan inventory.Snapshot {
	t.Helper()
	links, err := inventory.OpenNetlink(l.host.Fd(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(links.Close)
	sys := hosttest.Tree(t, `
devices/system/node/online = 0
class/net/nic0 -> ../../devices/virtual/net/nic0
devices/virtual/net/nic0/type = 1
`)
	return inventory.Watch(t.Context(), inventory.Sources{Sys: sys, Links: links}, inventory.Options{
		Virtual: func(model.Interface) bool { return true }, Refusals: l.driver.Refusals,
	}, resync)
}

// programAttributes are those that a machine's only NIC is published with.
func programAttributes(m *model.Machine) map[string]any {
	all := map[string]any{}
	for _, d := range slicecodec.Encode(m, slicecodec.DriverNet, slicecodec.CPUOptions{}) {
		for name, a := range d.Attributes {
			switch name {
			case "dra.net/ebpf":
				all["ebpf"] = *a.BoolValue
			case "dra.net/tcFilterNames":
				all["tc"] = *a.StringValue
			case "dra.net/tcxProgramNames":
				all["tcx"] = *a.StringValue
			}
		}
	}
	return all
}

// await takes snapshots until one is published so.
func await(t *testing.T, seen <-chan inventory.Snapshot, want map[string]any) *model.Machine {
	t.Helper()
	var got map[string]any
	limit := time.After(20 * time.Second)
	for {
		select {
		case s := <-seen:
			if s.Err != nil {
				t.Fatal(s.Err)
			}
			if got = programAttributes(s.Machine); cmp.Equal(want, got) {
				return s.Machine
			}
		case <-limit:
			t.Fatalf("published with %v, never with %v", got, want)
		}
	}
}

// rtnetlink sends an event for a filter of tc that is a program, and a NIC in a pod keeps
// the attributes that it had.
func TestFiltersArePublished(t *testing.T) {
	l := newLab(t)
	l.bpffs(t)
	pin := bpftest.FS(t) + "/from_netdev"
	if err := bpftest.Program(t, "prog", ebpf.SchedCLS, -1).Pin(pin); err != nil {
		t.Fatal(err)
	}
	seen := l.watch(t, time.Hour)
	await(t, seen, map[string]any{"ebpf": false})
	l.tc(t, "qdisc add dev nic0 clsact", "filter add dev nic0 ingress bpf direct-action object-pinned "+pin,
		"filter add dev nic0 egress bpf direct-action object-pinned "+pin)
	with := map[string]any{"ebpf": true, "tc": "from_netdev:[*fsobj]"}
	m := await(t, seen, with)

	r, err := l.driver.Plan(claim("", "nic0"), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	l.tc(t, "qdisc del dev nic0 clsact")
	m = await(t, seen, map[string]any{"ebpf": false})
	held, err := HeldNICs(r)
	if err != nil {
		t.Fatal(err)
	}
	merged, err := inventory.Merge(m, held)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(with, programAttributes(merged)); diff != "" {
		t.Errorf("while it is held (-want +got):\n%s", diff)
	}
}

// There is no event for tcx: the next scan finds it.
func TestTCXProgramsArePublished(t *testing.T) {
	l := newLab(t)
	l.bpffs(t)
	seen := l.watch(t, 50*time.Millisecond)
	await(t, seen, map[string]any{"ebpf": false})
	l.putProgram(t, "handle_ingress")
	await(t, seen, map[string]any{"ebpf": true, "tcx": "handle_ingress"})
}
