// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package published

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/explain/explaintest"
	"plumbline.dev/plumbline/internal/golden"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/topoview"
	"plumbline.dev/plumbline/internal/topoview/svg"
)

// sharingNode is an EGX server whose first NIC two pods share, and whose second one has one
// slot, which is taken.
func sharingNode(t *testing.T) Cluster {
	t.Helper()
	published := explaintest.Machine(t, "egx-t4-cx5", "n1")
	var names []string
	for _, s := range published {
		for _, d := range s.Spec.Devices {
			if s.Spec.Driver == "dra.net" {
				names = append(names, d.Name)
			}
		}
	}
	slices.Sort(names)
	explaintest.ShareNICs(published, model.Share{Type: model.ShareMacvlan, Slots: 4, Bandwidth: 100e9}, names[0])
	explaintest.ShareNICs(published, model.Share{Type: model.ShareIPvlan, Mode: "l3", Slots: 1}, names[1])
	c := Cluster{}
	for _, s := range published {
		c.Slices = append(c.Slices, *s)
	}
	for _, share := range []struct{ name, device, bandwidth string }{
		{"storage-a", names[0], "40G"}, {"storage-b", names[0], "500M"}, {"log", names[1], ""},
	} {
		r := resourceapi.DeviceRequestAllocationResult{
			Request: "nic", Driver: "dra.net", Pool: "n1", Device: share.device, ShareID: ptr.To(types.UID("share-" + share.name)),
			ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{"dra.net/slots": resource.MustParse("1")},
		}
		if share.bandwidth != "" {
			r.ConsumedCapacity["dra.net/bandwidth"] = resource.MustParse(share.bandwidth)
		}
		claim := resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: share.name}}
		claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{r}}}
		claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: share.name + "-0"}}
		c.Claims = append(c.Claims, claim)
	}
	return c
}

// Who shares a NIC, and how many of its slots and how much of its bandwidth they have, is told
// in text, in the picture and in JSON.
func TestSharedNICs(t *testing.T) {
	v, err := sharingNode(t).Node("n1")
	if err != nil {
		t.Fatal(err)
	}
	top := v.Topology()
	var text, picture bytes.Buffer
	if err := topoview.Text(&text, top, topoview.TextOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := svg.Topology(&picture, top); err != nil {
		t.Fatal(err)
	}
	golden.Assert(t, "testdata/shared-nics.txt", text.String())
	golden.Assert(t, "testdata/shared-nics.svg", picture.String())
	asJSON, err := json.Marshal(top)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"sharedBy":2,"shared":true,"slots":{"used":2,"of":4},"bandwidth":{"used":40500000000,"of":100000000000}`,
		`"shared":true,"usedUp":true,"slots":{"used":1,"of":1}`,
	} {
		if !strings.Contains(string(asJSON), want) {
			t.Errorf("JSON has no %s", want)
		}
	}
}
