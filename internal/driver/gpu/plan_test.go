// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/model"
)

func machine(t *testing.T, vendor uint16, nodes ...string) *model.Machine {
	t.Helper()
	address := model.PCIAddress{Bus: 0x8f}
	standIn := "bochs-display as NVIDIA H200"
	m, err := model.New(model.Machine{
		Roots:     []model.PCIRoot{{Name: "pci0000:8c", Path: "devices/pci0000:8c", Published: true}},
		Functions: []model.PCIFunction{{Address: address, Root: "pci0000:8c", Class: 0x030000, Vendor: vendor, Device: 0x1111}},
		GPUs:      []model.GPU{{PCI: address, ProductName: "NVIDIA H200", DeviceNodes: nodes, Simulated: &standIn}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func claim(name string, change func(*driver.Allocation)) driver.Claim {
	a := driver.Allocation{Request: "gpu", Pool: "node", Device: "gpu-0"}
	if change != nil {
		change(&a)
	}
	return driver.Claim{
		ClaimRef: driver.ClaimRef{UID: types.UID(name), Namespace: "default", Name: name},
		Devices:  []driver.Allocation{a},
	}
}

func TestPlan(t *testing.T) {
	r, err := Driver{}.Plan(claim("a", nil), machine(t, 0x1234, "/dev/dri/card1"), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := driver.Edits{
		Env:         []string{"NVIDIA_VISIBLE_DEVICES=void"},
		DeviceNodes: []driver.DeviceNode{{Path: "/dev/dri/card1", Permissions: "rw"}},
	}
	if diff := cmp.Diff(want, r.Devices[0].Edits); diff != "" {
		t.Errorf("edits (-want +got):\n%s", diff)
	}
	if got := string(r.Devices[0].Plan); got != `{"pci":"0000:8f:00.0","simulated":"bochs-display as NVIDIA H200"}` {
		t.Errorf("plan %s", got)
	}
}

func TestPlanRefuses(t *testing.T) {
	m := machine(t, 0x1234, "/dev/dri/card1")
	holder, err := Driver{}.Plan(claim("holder", nil), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		m      *model.Machine
		change func(*driver.Allocation)
		held   []driver.Record
		want   string
	}{
		{"held", m, nil, []driver.Record{holder}, "the GPU is held by claim default/holder"},
		{"no such GPU", m, func(a *driver.Allocation) { a.Device = "gpu-7" }, nil, "this node has no such GPU"},
		{"no device file", machine(t, 0x1234), nil, nil, "function 0000:8f:00.0 has no device file: is its kernel driver loaded?"},
		{"parameters", m, func(a *driver.Allocation) { a.Configs = []driver.Config{{Source: "class", Raw: []byte("{}")}} }, nil,
			"parameters of the class: a simulated GPU takes none"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Driver{}.Plan(claim("a", test.change), test.m, test.held)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "claim default/a, request gpu, device gpu-") {
				t.Errorf("got %v, want %q with claim, request and device", err, test.want)
			}
			if held := driver.OnlyHeld(err); held != (len(test.held) > 0) {
				t.Errorf("passes when the other claim goes: %t", held)
			}
		})
	}
	look := claim("look", func(a *driver.Allocation) { a.AdminAccess = true })
	if _, err := (Driver{}).Plan(look, m, []driver.Record{holder}); err != nil {
		t.Errorf("admin access beside a holder: %v", err)
	}
}

func TestNothingIsSimulatedBesideRealHardware(t *testing.T) {
	if err := RefuseRealHardware(machine(t, 0x10de)); err == nil || !strings.Contains(err.Error(), "0000:8f:00.0") {
		t.Errorf("got %v, want a refusal that names the function", err)
	}
	if err := RefuseRealHardware(machine(t, 0x1234)); err != nil {
		t.Error(err)
	}
}
