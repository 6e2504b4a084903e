// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"
	"text/tabwriter"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/docs/docstest"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/golden"
	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// picture is where the claims of the documentation's picture are kept.
var picture = filepath.Join("..", "..", "..", "docs", "images", "cpu-claims.yaml")

// The documentation shows what five claims get, in a table and in a picture: it is
// what the driver gives them.
func TestDocumentedClaims(t *testing.T) {
	facts, err := machine.OpenFacts("egx-t4-cx5")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := machine.Render(facts)
	if err != nil {
		t.Fatal(err)
	}
	m, _, err := inventory.Scan(t.Context(), inventory.Sources{Sys: tree}, inventory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := Driver{Offer: slicecodec.CPUOptions{ReservedPerNUMA: 2}}
	var held []driver.Record
	var table, objects bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "CLAIM\tASKS FOR\tGETS\tWHY")
	for i, tenant := range []struct {
		name, device, parameters string
		n                        int
		why                      string
	}{
		{"trainer", "cpudevnuma000", "", 8, "whole cores"},
		{"logger", "cpudevnuma000", "", 3, "a whole core, and half of one"},
		{"sidecar", "cpudevnuma000", "", 1, "the other half"},
		{"packets", "cpudevnuma001", `{"fullCores": true}`, 6, "cores that nobody shares"},
		{"pinned", "cpudevnuma001", `{"cpuset": "36-39,76-79"}`, 8, "as named"},
	} {
		c := claim(tenant.name, tenant.device, tenant.n)
		if tenant.parameters != "" {
			c = with(c, nil, tenant.parameters)
		}
		r, err := d.Plan(c, m, held)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, r)
		asks := fmt.Sprintf("%d of NUMA node %d", tenant.n, i/3)
		if tenant.parameters != "" {
			asks += ", " + tenant.parameters
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", tenant.name, asks, cpusOf(t, r), tenant.why)
		text, err := yaml.Marshal(asObject(c, r))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&objects, "---\n%s", text)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if golden.Update() {
		docstest.Rewrite(t, "cpu.md", "output", "tenants", table.String())
	}
	if diff := cmp.Diff(docstest.Get(t, "cpu.md", "output", "tenants").Text, table.String()); diff != "" {
		t.Errorf("cpu.md (-is +want), -update rewrites it:\n%s", diff)
	}
	golden.Assert(t, picture, objects.String())
}

// The CPUs that a record tells are read from the claim's status by who shows or measures them.
func TestStatusTellsCPUs(t *testing.T) {
	c := with(claim("a", "cpudevnuma000", 2), nil, `{"cpuset": "1-2"}`)
	r, err := Driver{}.Plan(c, shape{packages: 1, nodesPer: 1, coresPer: 6, smt: 1, coresPerL3: 6}.machine(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	object := asObject(c, r)
	if got := slicecodec.CPUsOf(object, object.Status.Allocation.Devices.Results[0]); got.String() != "1-2" {
		t.Errorf("the status tells CPUs %q, want 1-2", got)
	}
}

// asObject is the claim as the API server has it while a pod holds it.
func asObject(c driver.Claim, r driver.Record) *resourceapi.ResourceClaim {
	share := types.UID("5dd7cbea-2c6c-4e3e-a3a5-" + fmt.Sprintf("%012x", len(c.Name)))
	device := r.Devices[0]
	result := resourceapi.DeviceRequestAllocationResult{
		Request: device.Request, Driver: slicecodec.DriverCPU, Pool: device.Pool, Device: device.Device, ShareID: &share,
		ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{},
	}
	for name, q := range c.Devices[0].Consumed {
		result.ConsumedCapacity[resourceapi.QualifiedName(name)] = q
	}
	shareText := string(share)
	return &resourceapi.ResourceClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: "ResourceClaim"},
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name},
		Status: resourceapi.ResourceClaimStatus{
			ReservedFor: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: c.Name + "-0", UID: types.UID(c.Name)}},
			Allocation:  &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{result}}},
			Devices: []resourceapi.AllocatedDeviceStatus{{
				Driver: slicecodec.DriverCPU, Pool: device.Pool, Device: device.Device, ShareID: &shareText, Data: &runtime.RawExtension{Raw: device.StatusData},
			}},
		},
	}
}
