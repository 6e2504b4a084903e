// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev"
	"plumbline.dev/plumbline/internal/guard"
	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// An agent that gives NICs away asks its driver before it offers them.
func TestScanAsksTheDriver(t *testing.T) {
	hosttest.NewNamespace(t) // for the right to open sockets in one
	for name, want := range map[string]bool{slicecodec.DriverNet: true, slicecodec.DriverCPU: false} {
		options := DefaultOptions()
		options.Drivers = []string{name}
		var look inventory.Options
		closeAsked, err := askDriver(options, &look)
		if err != nil {
			t.Fatal(err)
		}
		defer closeAsked()
		if asks := look.Refusals != nil; asks != want {
			t.Errorf("with driver %s: asks %t, want %t", name, asks, want)
		}
		if look.Refusals == nil {
			continue
		}
		if refusals, programs, err := look.Refusals(nil); err != nil || len(refusals)+len(programs) > 0 {
			t.Errorf("about nothing: %v, %v, %v", refusals, programs, err)
		}
		if refusals, err := look.RDMARefusals(nil); err != nil || len(refusals) > 0 {
			t.Errorf("about no RDMA device: %v, %v", refusals, err)
		}
	}
}

// The guard looks for the RDMA device of a function, whatever it is called by then.
func TestRDMADeviceOfTheGuard(t *testing.T) {
	function, err := model.ParsePCIAddress("0000:91:00.0")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		nic  model.NIC
		want *guard.RDMA
	}{
		"of a function":      {model.NIC{PCI: &function, RDMA: &model.RDMADevice{Name: "mlx5_0"}}, &guard.RDMA{Device: "mlx5_0", Function: "0000:91:00.0"}},
		"without a function": {model.NIC{RDMA: &model.RDMADevice{Name: "mlx5_0"}}, &guard.RDMA{Device: "mlx5_0"}},
		"software":           {model.NIC{PCI: &function, RDMA: &model.RDMADevice{Name: "rxe0", Software: true}}, &guard.RDMA{}},
		"none":               {model.NIC{PCI: &function}, nil},
	} {
		plan, err := json.Marshal(netdev.Plan{NIC: test.nic})
		if err != nil {
			t.Fatal(err)
		}
		got, err := rdmaInPod(driver.Record{Devices: []driver.DeviceRecord{{Device: "nic0", Plan: plan}}})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
