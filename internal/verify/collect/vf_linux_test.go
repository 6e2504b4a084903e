// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/model"
)

// sriovTree is a physical function with a virtual one, and another function.
const sriovTree = `
bus/pci/devices/0000:01:00.0 -> ../../../devices/pci0000:00/0000:01:00.0
bus/pci/devices/0000:01:10.0 -> ../../../devices/pci0000:00/0000:01:10.0
bus/pci/devices/0000:02:00.0 -> ../../../devices/pci0000:00/0000:02:00.0
devices/pci0000:00/0000:01:00.0/virtfn1 -> ../0000:01:10.0
devices/pci0000:00/0000:01:00.0/net/ens9/ifindex = 7
devices/pci0000:00/0000:01:10.0/physfn -> ../0000:01:00.0
devices/pci0000:00/0000:02:00.0/class = 0x020000
`

func sriovSys(t *testing.T, change func(dir string)) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, hosttest.Tree(t, sriovTree)); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(dir)
	}
	return dir
}

func TestReadVFs(t *testing.T) {
	const pf = "devices/pci0000:00/0000:01:00.0/"
	vlan := VFSettings{VLAN: &VFVLAN{ID: 100, Protocol: 0x8100}, Trust: ptr.To(false)}
	tells := func(index int) (map[int]VFSettings, error) {
		if index != 7 {
			t.Errorf("link %d is asked, want 7", index)
		}
		return map[int]VFSettings{0: {}, 1: vlan}, nil
	}
	for _, tt := range []struct {
		name, address, err string
		change             func(dir string)
		ask                func(int) (map[int]VFSettings, error)
	}{
		{name: "as it is", address: "0000:01:10.0"},
		{name: "no virtual function", address: "0000:02:00.0", err: "no physical function of 0000:02:00.0"},
		{name: "gone", address: "0000:03:00.0", err: "no physical function of 0000:03:00.0"},
		{name: "not among the virtual ones", address: "0000:01:10.0", err: "is none of the virtual functions", change: func(dir string) { remove(t, dir+"/"+pf+"virtfn1") }},
		{name: "no interface", address: "0000:01:10.0", err: "has no interface in the host's network namespace", change: func(dir string) { remove(t, dir+"/"+pf+"net") }},
		{name: "two interfaces", address: "0000:01:10.0", err: "has 2 interfaces", change: func(dir string) {
			if err := os.Mkdir(filepath.Join(dir, pf, "net/ens10"), 0o755); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "an answer without it", address: "0000:01:10.0", err: "tells nothing of its virtual function 1", ask: func(int) (map[int]VFSettings, error) { return nil, nil }},
		{name: "no answer", address: "0000:01:10.0", err: "physical function ens9: no", ask: func(int) (map[int]VFSettings, error) { return nil, errors.New("no") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := Options{Sys: sriovSys(t, tt.change), PhysicalFunction: tells}
			if tt.ask != nil {
				o.PhysicalFunction = tt.ask
			}
			a := mustPCI(t, tt.address)
			found := map[model.PCIAddress]VirtualFunction{}
			readVFs(o, []model.PCIAddress{a}, found)
			got := found[a]
			if (got.Err == nil) != (tt.err == "") || got.Err != nil && !strings.Contains(got.Err.Error(), tt.err) {
				t.Fatalf("%v, want %q", got.Err, tt.err)
			}
			if got.Err == nil && (got.PF != "ens9" || got.Number != 1 || got.Settings != vlan) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// Every setting that rtnetlink tells is taken over.
func TestSettingsOf(t *testing.T) {
	got := settingsOf(rtnl.VFSettings{MAC: ptr.To("m"), VLAN: &rtnl.VFVLAN{ID: 1, QoS: 2, Protocol: 3}, Rate: &rtnl.VFRate{Min: 4, Max: 5}, SpoofCheck: ptr.To(true), Trust: ptr.To(false)})
	if *got.MAC != "m" || *got.VLAN != (VFVLAN{1, 2, 3}) || *got.Rate != (VFRate{4, 5}) || !*got.SpoofCheck || *got.Trust {
		t.Errorf("got %+v", got)
	}
	if got := settingsOf(rtnl.VFSettings{}); got != (VFSettings{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

// A program of another network namespace than the host's first process knows nothing,
// whatever links it has itself; one of the same asks the kernel.
func TestHostLinks(t *testing.T) {
	proc := t.TempDir()
	pid := child(t, "true")
	for name, target := range map[string]string{"1": "/proc/self", "other": filepath.Join("/proc", strconv.Itoa(pid))} {
		dir := filepath.Join(proc, name, "proc", "1")
		if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, dir); err != nil {
			t.Fatal(err)
		}
	}
	ask, done, err := hostLinks(filepath.Join(proc, "1", "proc"))
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if told, err := ask(1); err != nil || len(told) > 0 {
		t.Errorf("lo: %v, %v", told, err)
	}
	if _, _, err := hostLinks(filepath.Join(proc, "other", "proc")); !errors.Is(err, ErrNotOnHost) {
		t.Errorf("another namespace: %v", err)
	}
	if _, _, err := hostLinks(proc); err == nil {
		t.Error("there is no first process, and links are read")
	}
}

// A card that is reset keeps the kernel from answering: the scan goes on without, asks no
// second time meanwhile, and knows again afterwards.
func TestVFsNotAnswered(t *testing.T) {
	release, asked := make(chan struct{}), make(chan struct{}, 8)
	o := Options{Sys: sriovSys(t, nil), PhysicalFunction: func(int) (map[int]VFSettings, error) {
		asked <- struct{}{}
		<-release
		return map[int]VFSettings{1: {}}, nil
	}}
	a := mustPCI(t, "0000:01:10.0")
	targets := []Target{{UID: "x", VirtualFunctions: []model.PCIAddress{a}}}
	var v pendingVFs
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		v.start(o, targets)
		if got := v.await(ctx, targets[0].VirtualFunctions)[a]; got.Err == nil || !strings.Contains(got.Err.Error(), "does not answer") {
			t.Errorf("got %+v", got)
		}
		cancel()
	}
	close(release)
	<-v.done
	v.start(o, targets)
	if got := v.await(t.Context(), targets[0].VirtualFunctions)[a]; got.Err != nil || got.PF != "ens9" {
		t.Errorf("afterwards: %+v", got)
	}
	if n := len(asked); n != 2 {
		t.Errorf("asked %d times, want 2", n)
	}
	v.start(o, nil)
	if got := v.await(t.Context(), nil); got != nil {
		t.Errorf("nobody asked: %v", got)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

func mustPCI(t *testing.T, text string) model.PCIAddress {
	t.Helper()
	a, err := model.ParsePCIAddress(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
