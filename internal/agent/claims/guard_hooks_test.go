// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"strings"
	"testing"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/cdi"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/guard"
)

// onCPUs is a pinner whose every device is one CPU.
type onCPUs struct{ driver.Pinner }

func (onCPUs) Exclusive(records []driver.Record) (driver.Pin, error) {
	var pin driver.Pin
	for _, r := range records {
		pin.CPUs = pin.CPUs.Union(cpuset.New(len(r.Devices)))
	}
	return pin, nil
}

// A container starts one process for all NICs of a claim, whichever it names: they
// are all in its pod's namespace. CPUs go by the devices that it names.
func TestOneGuardForAllNICsOfAClaim(t *testing.T) {
	record := driver.Record{
		Driver: "dra.net", Claim: agenttest.ClaimFor("a", "nic0").ClaimRef,
		Devices: []driver.DeviceRecord{{Device: "nic0"}, {Device: "nic1"}, {Device: "ib0"}},
	}
	mac := "02:00:00:00:00:01"
	p := &Preparer{Guard: "/opt/guard"}
	p.InPod = func(r driver.Record) ([]guard.NIC, error) {
		if r.Devices[0].Device == "ib0" {
			return nil, nil // no interface to look for
		}
		return []guard.NIC{{MAC: &mac}}, nil
	}
	r, hooks, err := p.withGuardHooks(record)
	if err != nil {
		t.Fatal(err)
	}
	if len(hooks) != 1 || hooks[0].Name != "createRuntime" || hooks[0].Path != p.Guard || len(hooks[0].Args) != 3 {
		t.Errorf("hooks of all devices: %+v; want one for two NICs", hooks)
	}
	for _, d := range r.Devices {
		if len(d.Edits.Hooks) > 0 {
			t.Errorf("device %s has hooks of its own: %+v", d.Device, d.Edits.Hooks)
		}
	}

	// An RDMA device is looked for, too, also one without an interface, and by what the
	// container shows of it.
	p.RDMAInPod = func(r driver.Record) (*guard.RDMA, error) {
		if r.Devices[0].Device == "nic0" {
			return nil, nil
		}
		return &guard.RDMA{Device: "rdma-of-" + r.Devices[0].Device}, nil
	}
	_, hooks, err = p.withGuardHooks(record)
	if err != nil || len(hooks) != 1 || len(hooks[0].Args) != 4 {
		t.Fatalf("hooks with RDMA: %+v, %v; want one for three devices", hooks, err)
	}
	if want := `"rdma":{"device":"rdma-of-ib0","marker":"` + cdi.Marker(record, 2) + `"}`; !strings.Contains(hooks[0].Args[3], want) {
		t.Errorf("the hook wants %s of ib0, not %s", hooks[0].Args[3], want)
	}

	p.RDMAInPod, p.InPod, p.Pinner = nil, nil, onCPUs{}
	r, hooks, err = p.withGuardHooks(record)
	if err != nil || len(hooks) > 0 {
		t.Errorf("hooks of all devices: %+v, %v; want none", hooks, err)
	}
	for _, d := range r.Devices {
		if len(d.Edits.Hooks) != 1 {
			t.Errorf("device %s has %d hooks of its own, want one", d.Device, len(d.Edits.Hooks))
		}
	}
}
