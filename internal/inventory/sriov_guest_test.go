// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// TestSRIOVFunctions finds virtual functions of a real driver, says whose they are, and
// withholds the physical one while it has any.
func TestSRIOVFunctions(t *testing.T) {
	pf := hosttest.NeedSRIOV(t)
	if nic := nicAt(t, scanGuest(t, inventory.Options{}), pf.Address); nic.Withheld != nil {
		t.Errorf("without virtual functions %s is withheld: %s", pf.Name, *nic.Withheld)
	}
	addresses := pf.SetVFs(t, 2)
	m := scanGuest(t, inventory.Options{})
	const busy = "has virtual functions (sriov_numvfs is 2), whose links would go down with it: --allow-physical-functions offers it"
	if nic := nicAt(t, m, pf.Address); nic.Withheld == nil || *nic.Withheld != busy {
		t.Errorf("%s is withheld: %v, want %s", pf.Name, nic.Withheld, busy)
	}
	if nic := nicAt(t, scanGuest(t, inventory.Options{PhysicalFunctions: true}), pf.Address); nic.Withheld != nil {
		t.Errorf("on the administrator's word %s is withheld: %s", pf.Name, *nic.Withheld)
	}
	physical := nicAt(t, m, pf.Address)
	for number, address := range addresses {
		nic := nicAt(t, m, address)
		f := m.Function(*nic.PCI)
		if f.PhysicalFunction == nil || f.PhysicalFunction.String() != pf.Address || f.VFIndex == nil || *f.VFIndex != number {
			t.Errorf("%s is function %v of %v, want %d of %s", address, f.VFIndex, f.PhysicalFunction, number, pf.Address)
		}
		if nic.Withheld != nil || nic.Interface == nil || f.Driver == nil || *f.Driver != "igbvf" {
			t.Errorf("%s: withheld %v, interface %v, driver %v", address, nic.Withheld, nic.Interface, f.Driver)
		}
		if home := physical.NUMANode; home == nil || nic.NUMANode == nil || *nic.NUMANode != *home || f.Root != m.Function(*physical.PCI).Root {
			t.Errorf("%s is on NUMA node %v of %s, its physical function on %v", address, nic.NUMANode, f.Root, home)
		}
	}
	published := slicecodec.Encode(m, slicecodec.DriverNet, slicecodec.CPUOptions{})
	for number, address := range addresses {
		want := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			slicecodec.AttrIsVF: {BoolValue: new(true)}, "dra.net/pfName": {StringValue: &pf.Name},
			"plumbline.dev/physicalFunction": {StringValue: &pf.Address}, "plumbline.dev/vfID": {IntValue: new(int64(number))},
		}
		got := attributesOf(published, "pci-"+strings.NewReplacer(":", "-", ".", "-").Replace(address), want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s publishes (-want +got):\n%s", address, diff)
		}
	}
	pf.SetVFs(t, 0)
	if nic := nicAt(t, scanGuest(t, inventory.Options{}), pf.Address); nic.Withheld != nil {
		t.Errorf("its virtual functions gone, %s is withheld: %s", pf.Name, *nic.Withheld)
	}
}

func scanGuest(t *testing.T, o inventory.Options) *model.Machine {
	t.Helper()
	host, err := netns.Open(netns.Self)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = host.Close() }()
	links, err := inventory.OpenNetlink(host.Fd(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer links.Close()
	m, problems, err := inventory.Scan(t.Context(), inventory.Sources{Sys: os.DirFS("/sys"), Links: links}, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Logf("%s: %v", p.Path, p.Err)
	}
	return m
}

// attributesOf are those attributes of a device that others name.
func attributesOf(devices []resourceapi.Device, name string, named map[resourceapi.QualifiedName]resourceapi.DeviceAttribute) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	got := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
	for _, d := range devices {
		if d.Name != name {
			continue
		}
		for attribute, value := range d.Attributes {
			if _, wanted := named[attribute]; wanted {
				got[attribute] = value
			}
		}
	}
	return got
}

func nicAt(t *testing.T, m *model.Machine, address string) model.NIC {
	t.Helper()
	for _, n := range m.NICs {
		if n.PCI != nil && n.PCI.String() == address {
			return n
		}
	}
	t.Fatalf("no NIC at %s: there are %v", address, m.NICs)
	return model.NIC{}
}
