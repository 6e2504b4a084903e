// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package devicemetadata

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/api/metadata"
	upstream "k8s.io/dynamic-resource-allocation/devicemetadata"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/golden"
)

// twoNICs is a record of a request for two NICs, and of an alternative of another.
func twoNICs() driver.Record {
	return driver.Record{
		Driver: "dra.net", Claim: driver.ClaimRef{UID: "6a0c2f2e", Namespace: "default", Name: "trainer-nics-x7p2k"},
		Devices: []driver.DeviceRecord{
			{Request: "rails", Pool: "node-1", Device: "pci-0000-91-00-0"},
			{Request: "rails", Pool: "node-1", Device: "pci-0000-92-00-0"},
			{Request: "storage/fast", Pool: "node-1", Device: "pci-0000-05-00-0"},
		},
	}
}

type attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute

func text(v string) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{StringValue: &v} }

func told() []Told {
	return []Told{
		{Attributes: attributes{"dra.net/rdmaDevice": text("mlx5_0"), "dra.net/rdma": {BoolValue: ptr.To(true)}}},
		{Attributes: attributes{"dra.net/rdmaDevice": text("mlx5_1"), "dra.net/rdma": {BoolValue: ptr.To(true)}}},
		{Attributes: attributes{"resource.kubernetes.io/numaNode": {IntValue: ptr.To(int64(1))}}},
	}
}

func open(t *testing.T) *Dir {
	t.Helper()
	d, err := Open(filepath.Join(t.TempDir(), "metadata"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func written(t *testing.T, d *Dir, r driver.Record, podClaim *string) map[int]driver.Mount {
	t.Helper()
	if err := d.Write(r, podClaim, told()); err != nil {
		t.Fatal(err)
	}
	mounts, err := d.Mounts(r)
	if err != nil {
		t.Fatal(err)
	}
	return mounts
}

// consume reads a file as a program in a container does, by upstream's decoder and its
// validation.
func consume(t *testing.T, file string) *metadata.DeviceMetadata {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var m metadata.DeviceMetadata
	var invalid error
	if err := upstream.DecodeMetadataFromStream(json.NewDecoder(bytes.NewReader(content)), &m, upstream.DecodeMetadataWithValidationResult(&invalid)); err != nil || invalid != nil {
		t.Fatalf("%s: %v, %v", content, err, invalid)
	}
	return &m
}

// A request has one file, where the container looks for it, in every version.
func TestWrite(t *testing.T) {
	d := open(t)
	for _, test := range []struct {
		name     string
		podClaim *string
		want     map[int]string
	}{
		{"a claim of its own", nil, map[int]string{
			0: "/var/run/kubernetes.io/dra-device-attributes/resourceclaims/trainer-nics-x7p2k/rails/dra.net-metadata.json",
			2: "/var/run/kubernetes.io/dra-device-attributes/resourceclaims/trainer-nics-x7p2k/storage/dra.net-metadata.json",
		}},
		{"a claim of a template", ptr.To("nics"), map[int]string{
			0: "/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/nics/rails/dra.net-metadata.json",
			2: "/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/nics/storage/dra.net-metadata.json",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := map[int]string{}
			for i, m := range written(t, d, twoNICs(), test.podClaim) {
				got[i] = m.Destination
				info, err := os.Stat(m.Source)
				if err != nil || info.Mode() != 0o644 {
					t.Errorf("%s: %v, %v; want it to be anybody's to read", m.Source, info, err)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("mounts (-want +got):\n%s", diff)
			}
		})
	}
	mounts, err := d.Mounts(twoNICs())
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(mounts[0].Source)
	if err != nil {
		t.Fatal(err)
	}
	golden.Assert(t, filepath.Join("testdata", "rails.json"), string(content))
	m := consume(t, mounts[2].Source)
	if m.Requests[0].Name != "storage/fast" || len(m.Requests[0].Devices) != 1 {
		t.Errorf("the alternative's file says %+v", m.Requests)
	}
}

// What becomes known in the pod goes into the file, once.
func TestUpdate(t *testing.T) {
	d, r := open(t), twoNICs()
	mounts := written(t, d, r, ptr.To("nics"))
	network := &resourceapi.NetworkDeviceData{InterfaceName: "dranet0", HardwareAddress: "02:00:00:00:00:01", IPs: []string{"10.0.0.2/24"}}
	late := []Told{{Attributes: attributes{"plumbline.dev/gidIndex": {IntValue: ptr.To(int64(3))}}, Network: network}, {}, {}}
	if err := d.Update(r, late); err != nil {
		t.Fatal(err)
	}
	m := consume(t, mounts[0].Source)
	first := m.Requests[0].Devices[0]
	if diff := cmp.Diff(network, first.NetworkData); diff != "" {
		t.Errorf("network data (-want +got):\n%s", diff)
	}
	want := attributes{"dra.net/rdmaDevice": text("mlx5_0"), "dra.net/rdma": {BoolValue: ptr.To(true)}, "plumbline.dev/gidIndex": {IntValue: ptr.To(int64(3))}}
	if diff := cmp.Diff(want, first.Attributes); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	if m.Generation != 2 || *m.PodClaimName != "nics" {
		t.Errorf("generation %d of pod claim %s, want 2 of nics", m.Generation, *m.PodClaimName)
	}
	if other := consume(t, mounts[2].Source); other.Generation != 1 {
		t.Errorf("a file of which nothing new is known has generation %d", other.Generation)
	}
	before, err := os.Stat(mounts[0].Source)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Update(r, late); err != nil {
		t.Fatal(err)
	}
	if now, err := os.Stat(mounts[0].Source); err != nil || !os.SameFile(before, now) {
		t.Errorf("written again although nothing changed: %v", err)
	}
	// The pod's next sandbox has the NIC without address and GID.
	late[0] = Told{Attributes: attributes{"plumbline.dev/gidIndex": {}}, Network: &resourceapi.NetworkDeviceData{InterfaceName: "dranet0"}}
	if err := d.Update(r, late); err != nil {
		t.Fatal(err)
	}
	first = consume(t, mounts[0].Source).Requests[0].Devices[0]
	if _, known := first.Attributes["plumbline.dev/gidIndex"]; known || len(first.NetworkData.IPs) > 0 {
		t.Errorf("what is not known any more is still told: %+v", first)
	}
}

// A claim that was prepared by an agent that told nothing stays as it is.
func TestNothingWritten(t *testing.T) {
	d := open(t)
	if err := d.Update(twoNICs(), make([]Told, 3)); err != nil {
		t.Error(err)
	}
	if mounts, err := d.Mounts(twoNICs()); err != nil || len(mounts) > 0 {
		t.Errorf("mounts %v, %v", mounts, err)
	}
	if uids, err := d.Claims("dra.net"); err != nil || len(uids) > 0 {
		t.Errorf("claims %v, %v", uids, err)
	}
}

// A file that the disk has lost a part of keeps no claim from being prepared anew.
func TestTornFile(t *testing.T) {
	d, r := open(t), twoNICs()
	mounts := written(t, d, r, nil)
	for _, content := range []string{"", "{", `{"kind": "DeviceMetadata", "apiVersion": "metadata.resource.k8s.io/v1beta1", "metadata": {"uid": "another"}}`} {
		if err := os.WriteFile(mounts[0].Source, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		left, err := d.Mounts(r)
		if err == nil || !strings.Contains(err.Error(), mounts[0].Source) || len(left) != 1 || left[2] != mounts[2] {
			t.Errorf("%q: mounts %v, %v; want the other file alone", content, left, err)
		}
		if err := d.Update(r, make([]Told, 3)); err == nil {
			t.Errorf("%q was updated", content)
		}
	}
	if got := written(t, d, r, nil); len(got) != 2 {
		t.Errorf("mounts %v after it was written anew", got)
	}
}

func TestRemove(t *testing.T) {
	d, r := open(t), twoNICs()
	written(t, d, r, nil)
	if uids, err := d.Claims("dra.net"); err != nil || !slices.Equal(uids, []types.UID{r.Claim.UID}) {
		t.Errorf("claims %v, %v", uids, err)
	}
	file, err := d.Place(r, "nccl-topology.xml", []byte("<system/>"))
	if content, readErr := os.ReadFile(file); err != nil || readErr != nil || string(content) != "<system/>" {
		t.Errorf("placed %q, %v, %v", content, err, readErr)
	}
	if mounts, err := d.Mounts(r); err != nil || len(mounts) != 2 {
		t.Errorf("mounts %v, %v; want the metadata alone", mounts, err)
	}
	for range 2 {
		if err := d.Remove("dra.net", r.Claim.UID); err != nil {
			t.Fatal(err)
		}
	}
	if entries, err := os.ReadDir(filepath.Join(d.path, "dra.net")); err != nil || len(entries) > 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

// A container's mount shows by its source that it is device metadata.
func TestTells(t *testing.T) {
	d := open(t)
	r := twoNICs()
	if err := d.Write(r, nil, told()); err != nil {
		t.Fatal(err)
	}
	mounts, err := d.Mounts(r)
	if err != nil || len(mounts) == 0 {
		t.Fatal(mounts, err)
	}
	for _, m := range mounts {
		if !d.Tells(m.Source) || d.Tells(m.Destination) || d.Tells("/other"+m.Source) {
			t.Errorf("does not know %s from %s", m.Source, m.Destination)
		}
	}
	beside, err := d.Place(r, "nccl-topology.xml", nil)
	if err != nil {
		t.Fatal(err)
	}
	if d.Tells(beside) || d.Tells(filepath.Dir(beside)) {
		t.Errorf("%s tells of a device", beside)
	}
}

// Nothing of a claim's text leads out of the directory.
func TestNamesOfFiles(t *testing.T) {
	d := open(t)
	for _, name := range []string{"", ".", "..", "../x", "a/../../x"} {
		r := twoNICs()
		r.Claim.UID = types.UID(name)
		if err := d.Write(r, nil, told()); err == nil {
			t.Errorf("UID %q is taken", name)
		}
		if _, err := d.Place(r, "x", nil); err == nil {
			t.Errorf("a file of UID %q is placed", name)
		}
		if _, err := d.Place(twoNICs(), name, nil); err == nil {
			t.Errorf("file %q is placed", name)
		}
		if err := d.Remove("dra.net", types.UID(name)); err == nil {
			t.Errorf("UID %q is removed", name)
		}
	}
	for _, request := range []string{"", ".", ".."} {
		r := twoNICs()
		r.Devices[0].Request = request
		if err := d.Write(r, nil, told()); err == nil {
			t.Errorf("request %q is taken", request)
		}
	}
}

// What is beyond the API's limit is left out: a cloud's attributes before the driver's.
func TestLimit(t *testing.T) {
	d, r := open(t), twoNICs()
	r.Devices = r.Devices[:1]
	all := attributes{"dra.net/rdma": {BoolValue: ptr.To(true)}}
	for i := range 40 {
		all[resourceapi.QualifiedName(fmt.Sprintf("gce.dra.net/a%02d", i))] = text("x")
	}
	if err := d.Write(r, nil, []Told{{Attributes: all}}); err != nil {
		t.Fatal(err)
	}
	mounts, err := d.Mounts(r)
	if err != nil {
		t.Fatal(err)
	}
	got := consume(t, mounts[0].Source).Requests[0].Devices[0].Attributes
	if _, there := got["dra.net/rdma"]; !there || len(got) != maxAttributes {
		t.Errorf("%d attributes: %v", len(got), got)
	}
}
