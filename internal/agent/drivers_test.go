// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// An agent that gives NICs away asks its driver before it offers them.
func TestScanAsksTheDriver(t *testing.T) {
	hosttest.NewNamespace(t) // for the right to open sockets in one
	for driver, want := range map[string]bool{slicecodec.DriverNet: true, slicecodec.DriverCPU: false} {
		options := DefaultOptions()
		options.Drivers = []string{driver}
		var look inventory.Options
		closeAsked, err := askDriver(options, &look)
		if err != nil {
			t.Fatal(err)
		}
		defer closeAsked()
		if asks := look.Refusals != nil; asks != want {
			t.Errorf("with driver %s: asks %t, want %t", driver, asks, want)
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
