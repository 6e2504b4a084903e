// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claimgen_test

import (
	"slices"
	"testing"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/claimgen"
	"plumbline.dev/plumbline/internal/explain/explaintest"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// As many claims fit as there are slots and bandwidth for, each with as many NICs as it asks
// for; whole NICs are nobody's share, and shares nobody's whole NIC.
func TestSharesOfNICs(t *testing.T) {
	share := model.Share{Type: model.ShareMacvlan, Slots: 4, Bandwidth: 100e9}
	two := []string{"pci-0000-91-00-0", "pci-0000-c6-00-0"}
	of := func(nics int, change func(*claimgen.Options)) claimgen.Options {
		o := claimgen.Options{NICs: nics, Shared: true, Align: claimgen.PCIe}
		if change != nil {
			change(&o)
		}
		return o
	}
	for _, tc := range []struct {
		name  string
		nics  []string
		o     claimgen.Options
		wants int
	}{
		{"as many as there are slots", two, of(1, nil), 8},
		{"bandwidth", two, of(1, func(o *claimgen.Options) { o.Bandwidth = "40G" }), 4},
		{"more bandwidth than is offered", two, of(1, func(o *claimgen.Options) { o.Bandwidth = "101G" }), 0},
		{"two NICs", two, of(2, nil), 4},
		{"two NICs of one name each", two, of(2, func(o *claimgen.Options) { o.InterfacePrefix = "net" }), 4},
		{"more NICs than are shared", two, of(3, nil), 0},
		{"beside a GPU", two, of(1, func(o *claimgen.Options) { o.GPUs = 1 }), 4},
		{"beside GPUs on two NUMA nodes", nil, of(2, func(o *claimgen.Options) { o.GPUs, o.CPUs, o.Align, o.NUMANodes = 2, 8, claimgen.NUMA, 2 }), 4},
		{"two NICs of one NUMA node", nil, of(2, func(o *claimgen.Options) { o.Align = claimgen.NUMA }), 16},
		{"a NIC from farther away", two, of(1, func(o *claimgen.Options) { o.GPUs, o.Fallback = 1, []string{claimgen.NUMA} }), 8},
		{"whole NICs", two, claimgen.Options{NICs: 1, Align: claimgen.PCIe}, 6},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := cluster(t, "a3-ultragpu-8g")
			explaintest.ShareNICs(c.Slices, share, tc.nics...)
			pods := fill(t, c, tc.o)
			if len(pods) != tc.wants {
				t.Fatalf("%d claims fit, want %d", len(pods), tc.wants)
			}
			for _, pod := range pods {
				var nics []string
				for _, r := range pod[0].Status.Allocation.Devices.Results {
					if r.Driver != slicecodec.DriverNet {
						continue
					}
					if shared := r.ShareID != nil; shared != tc.o.Shared {
						t.Errorf("%s has a share: %t", r.Device, shared)
					}
					nics = append(nics, r.Device)
				}
				slices.Sort(nics)
				if n := len(slices.Compact(nics)); n != tc.o.NICs {
					t.Errorf("%s has links on %d NICs, want %d", pod[0].Name, n, tc.o.NICs)
				}
			}
		})
	}
}

// The pool is a parameter of each interface, as the driver reads it, of whole NICs too.
func TestPool(t *testing.T) {
	for _, shared := range []bool{false, true} {
		spec, err := claimgen.Spec(claimgen.Options{NICs: 2, Shared: shared, Pool: "fabric", InterfacePrefix: "net", Align: claimgen.NUMA})
		if err != nil || len(spec.Devices.Config) != 2 {
			t.Fatal(err, spec)
		}
		for _, config := range spec.Devices.Config {
			c, err := v1alpha1.DecodeNetworkConfig(config.Opaque.Parameters.Raw)
			if err != nil || c.Interface.IPAM == nil || *c.Interface.IPAM.Pool != "fabric" {
				t.Errorf("parameters %s, %v", config.Opaque.Parameters.Raw, err)
			}
		}
	}
}

func TestSharesRefused(t *testing.T) {
	for want, o := range map[string]claimgen.Options{
		"--shared is for NICs: want --nics with it":                                                    {GPUs: 1, Shared: true},
		`--bandwidth "40G" is taken of NICs that are shared: want --shared with it`:                    {NICs: 1, Bandwidth: "40G"},
		`--bandwidth "40Gbit": want bits per second, such as 40G`:                                      {NICs: 1, Shared: true, Bandwidth: "40Gbit"},
		`--bandwidth "0": want bits per second, such as 40G`:                                           {NICs: 1, Shared: true, Bandwidth: "0"},
		"--vf vlan=100 sets what is the NIC's, and with --shared others have it too: want one of them": {NICs: 1, Shared: true, VF: map[string]string{"vlan": "100"}},
		`--pool "fabric" is for NICs: want --nics with it`:                                             {GPUs: 1, Pool: "fabric"},
	} {
		o.Align = claimgen.PCIe
		if _, err := claimgen.Spec(o); err == nil || err.Error() != want {
			t.Errorf("%+v:\n%v, want\n%s", o, err, want)
		}
	}
}
