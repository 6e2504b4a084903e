// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package topoview_test

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/topoview"
	"plumbline.dev/plumbline/internal/topoview/svg"
)

// What /sys says is bound to vfio-pci, or a variant, is drawn as being for virtual
// machines.
func TestPassthrough(t *testing.T) {
	function := func(bus uint8, class uint32, driver *string) model.PCIFunction {
		return model.PCIFunction{Address: model.PCIAddress{Bus: bus}, Root: "pci0000:00", Class: class, Vendor: 0x10de, Device: 0x2335, Driver: driver}
	}
	m, err := model.New(model.Machine{
		Roots: []model.PCIRoot{{Name: "pci0000:00", Published: true}},
		Functions: []model.PCIFunction{
			function(1, 0x030200, ptr.To("vfio-pci")), function(2, 0x030200, ptr.To("nvidia")), function(3, 0x020000, ptr.To("mlx5_vfio_pci")),
			function(4, 0x020000, nil),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	top := topoview.Build(m, topoview.Options{})
	want := map[string]string{"0000:01:00.0": "vfio-pci", "0000:03:00.0": "mlx5_vfio_pci"}
	for _, d := range top.AllDevices() {
		if d.Passthrough != want[d.Address] {
			t.Errorf("%s: %q, want %q", d.Address, d.Passthrough, want[d.Address])
		}
	}
	var text, picture bytes.Buffer
	if err := topoview.Text(&text, top, topoview.TextOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := svg.Topology(&picture, top); err != nil {
		t.Fatal(err)
	}
	for _, driver := range want {
		if says := "bound to " + driver + ", for virtual machines"; strings.Count(text.String(), says) != 1 || !strings.Contains(picture.String(), says) {
			t.Errorf("no %q in\n%s", says, text.String())
		}
	}
}
