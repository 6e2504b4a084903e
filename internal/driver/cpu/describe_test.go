// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/model"
)

// Containers are told which CPUs a claim has of each device, as many as there may be.
func TestDescribe(t *testing.T) {
	sparse := "0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,32,34,36,38,40,42,44,46,48,50,52,54,56,58"
	r := driver.Record{Driver: "dra.cpu", Devices: []driver.DeviceRecord{
		{Device: "cpudevnuma000", Plan: json.RawMessage(`{"cpus": "2-3,58-59"}`)},
		{Device: "cpudevnuma001", Plan: json.RawMessage(`{"cpus": "` + sparse + `"}`)},
		{Device: "cpudevnuma001", Plan: json.RawMessage(`{"cpus": ""}`), AdminAccess: true},
	}}
	got, err := Driver{}.Describe(r)
	if err != nil {
		t.Fatal(err)
	}
	want := []map[string]model.Attribute{
		{"dra.cpu/allocatedNumCPUs": model.NumberAttribute(4), "plumbline.dev/cpus": model.TextAttribute("2-3,58-59")},
		{"dra.cpu/allocatedNumCPUs": model.NumberAttribute(30), "plumbline.dev/cpus": model.TextAttribute(sparse)},
		nil,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	for _, plan := range []string{`{`, `{"cpus": "x"}`} {
		r.Devices[0].Plan = json.RawMessage(plan)
		if _, err := (Driver{}).Describe(r); err == nil {
			t.Errorf("plan %s is described", plan)
		}
	}
}
