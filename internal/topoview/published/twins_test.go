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
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/topoview"
	"plumbline.dev/plumbline/internal/topoview/svg"
)

// twinnedNode is an EGX server with four NICs that are offered in shares and whole: of the
// first two pods have a share, of the second nobody has anything, the third one pod has
// whole, and the fourth is not shared.
func twinnedNode(t *testing.T) Cluster {
	t.Helper()
	c := Cluster{}
	for _, s := range explaintest.Machine(t, "egx-t4-cx5", "n1") {
		c.Slices = append(c.Slices, *s)
	}
	decoded, err := slicecodec.Decode(c.Slices)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range decoded.Machine.NICs {
		n := &decoded.Machine.NICs[i]
		names = append(names, slicecodec.NICName(*n))
		if i < 3 {
			n.Share = &model.Share{Type: model.ShareMacvlan, Slots: 4, Bandwidth: 100e9, AlsoExclusive: true}
		}
	}
	for i := range c.Slices {
		if c.Slices[i].Spec.Driver == slicecodec.DriverNet {
			c.Slices[i].Spec.Devices = slicecodec.Encode(decoded.Machine, slicecodec.DriverNet, slicecodec.CPUOptions{})
		}
	}
	hold := func(claim, device string, shared bool) {
		r := resourceapi.DeviceRequestAllocationResult{Request: "nic", Driver: "dra.net", Pool: "n1", Device: device}
		if shared {
			r.ShareID = ptr.To(types.UID("share-" + claim))
			r.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"dra.net/slots": resource.MustParse("1")}
		}
		held := resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: claim}}
		held.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{r}}}
		held.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: claim + "-0"}}
		c.Claims = append(c.Claims, held)
	}
	hold("storage-a", names[0], true)
	hold("storage-b", names[0], true)
	hold("train", names[2]+"-whole", false)
	return c
}

// A NIC that is offered in shares and whole is one NIC: it is drawn and counted once, and who
// has it whole has it.
func TestTwins(t *testing.T) {
	c := twinnedNode(t)
	v, err := c.Node("n1")
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
	golden.Assert(t, "testdata/twins.txt", text.String())
	golden.Assert(t, "testdata/twins.svg", picture.String())
	if nics := top.Capacity.NICs; top.Counts.NICs != 4 || nics != (topoview.Count{Free: 3, Total: 4}) {
		t.Errorf("%d NICs, of which %+v; want 4, of which 3 are free", top.Counts.NICs, nics)
	}
	asJSON, err := json.Marshal(top)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"twin":"pci-0000-5d-00-0-whole","heldWhole":true`, `"twin":"pci-0000-37-00-1-whole"`} {
		if !strings.Contains(string(asJSON), want) {
			t.Errorf("JSON has no %s", want)
		}
	}
	overview := c.Overview(nil)
	if nics := overview.Capacity.NICs; nics != (topoview.Count{Free: 3, Total: 4}) {
		t.Errorf("topo nodes counts %+v, want 3 of 4 free", nics)
	}
	if len(overview.Nodes[0].Devices) != 8 || slices.ContainsFunc(overview.Nodes[0].Devices, func(d topoview.Device) bool { return strings.HasSuffix(d.Name, "-whole") }) {
		t.Errorf("topo nodes lists %+v, want four GPUs and four NICs", overview.Nodes[0].Devices)
	}
}
