// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/api/metadata"
	upstream "k8s.io/dynamic-resource-allocation/devicemetadata"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/devicemetadata"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/guard"
	"plumbline.dev/plumbline/internal/model"
)

// describer says of each device how many CPUs it has.
type describer struct{ err error }

func (d describer) Describe(r driver.Record) ([]map[string]model.Attribute, error) {
	all := make([]map[string]model.Attribute, len(r.Devices))
	for i := range all {
		all[i] = map[string]model.Attribute{"dra.cpu/allocatedNumCPUs": model.NumberAttribute(4)}
	}
	return all, d.err
}

// telling is an agent that tells containers of their devices.
func (n *node) telling(d *agenttest.FakeDriver) *Preparer {
	n.t.Helper()
	p := n.start(d)
	told, err := devicemetadata.Open(filepath.Join(filepath.Dir(n.cdiPath), "metadata"))
	if err != nil {
		n.t.Fatal(err)
	}
	numa := "node-0"
	p.Metadata, p.Describer = told, describer{}
	p.Published = func() []resourceapi.Device {
		return []resourceapi.Device{{Name: "nic0", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"dra.net/ifName": {StringValue: &numa}}}}
	}
	if err := p.Recover(n.t.Context()); err != nil {
		n.t.Fatal(err)
	}
	return p
}

// mounted is the metadata that the claim's CDI spec mounts, and where; nil for none.
func mounted(t *testing.T, p *Preparer, r driver.Record) (m *metadata.DeviceMetadata, inside string) {
	t.Helper()
	text, err := os.ReadFile(p.CDI.File(p.Name(), r.Claim.UID))
	if err != nil {
		t.Fatal(err)
	}
	var spec struct {
		Devices []struct {
			ContainerEdits struct {
				Mounts []struct{ HostPath, ContainerPath string }
			}
		}
	}
	if err := json.Unmarshal(text, &spec); err != nil {
		t.Fatal(err)
	}
	for _, d := range spec.Devices {
		for _, mount := range d.ContainerEdits.Mounts {
			f, err := os.Open(mount.HostPath)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = f.Close() }()
			m = &metadata.DeviceMetadata{}
			if err := upstream.DecodeMetadataFromStream(json.NewDecoder(f), m); err != nil {
				t.Fatal(err)
			}
			inside = mount.ContainerPath
		}
	}
	return m, inside
}

// A container reads what is published of its devices, what was decided of them, and what
// was found in the pod, by the claim's own CDI device, until the claim ends.
func TestMetadata(t *testing.T) {
	n, d := newNode(t), &agenttest.FakeDriver{DriverName: "dra.net"}
	p := n.telling(d)
	c := agenttest.ClaimFor("a", "nic0")
	c.Object = &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{resourceapi.PodResourceClaimAnnotation: "nics"}}}
	r, err := p.Prepare(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	m, inside := mounted(t, p, r)
	if inside != "/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/nics/r/dra.net-metadata.json" {
		t.Errorf("mounted at %q", inside)
	}
	told := m.Requests[0].Devices[0]
	if a := told.Attributes; len(a) != 2 || *a["dra.net/ifName"].StringValue != "node-0" || *a["dra.cpu/allocatedNumCPUs"].IntValue != 4 {
		t.Errorf("told %+v", told)
	}
	if told.NetworkData != nil {
		t.Errorf("network data %+v before the NIC is in a pod", told.NetworkData)
	}
	if err := p.DescribeAttached(r, []driver.DeviceStatus{{
		Device: "nic0", InterfaceName: "net1", HardwareAddress: "02:00:00:00:00:01", IPs: []string{"192.0.2.7/24"},
		Attributes: map[string]model.Attribute{"plumbline.dev/gidIndex": model.NumberAttribute(3)},
	}}); err != nil {
		t.Fatal(err)
	}
	// The next agent writes the CDI specs anew, and leaves what is told as it is.
	p = n.telling(d)
	m, _ = mounted(t, p, r)
	told = m.Requests[0].Devices[0]
	if told.NetworkData == nil || told.NetworkData.InterfaceName != "net1" || *told.Attributes["plumbline.dev/gidIndex"].IntValue != 3 || len(told.Attributes) != 3 {
		t.Errorf("told %+v", told)
	}
	if err := p.Unprepare(t.Context(), r.Claim); err != nil {
		t.Fatal(err)
	}
	if left, err := p.Metadata.Claims("dra.net"); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// Switched off, no container gets the files, of a claim that was prepared before neither.
// Switched on again, all do, with what has become known meanwhile.
func TestMetadataSwitchedOff(t *testing.T) {
	n, d := newNode(t), &agenttest.FakeDriver{DriverName: "dra.net"}
	p := n.telling(d)
	before, err := p.Prepare(t.Context(), agenttest.ClaimFor("a", "nic0"))
	if err != nil {
		t.Fatal(err)
	}
	if m, _ := mounted(t, p, before); m == nil {
		t.Fatal("not mounted while it is on")
	}
	p = n.telling(d)
	p.WithoutMetadata = true
	if err := p.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	since, err := p.Prepare(t.Context(), agenttest.ClaimFor("b", "nic1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []driver.Record{before, since} {
		if m, _ := mounted(t, p, r); m != nil {
			t.Errorf("%s: mounted %+v", r.Claim, m)
		}
		if err := p.DescribeAttached(r, []driver.DeviceStatus{{Device: r.Devices[0].Device, InterfaceName: "net1"}}); err != nil {
			t.Fatal(err)
		}
	}
	p = n.telling(d)
	for _, r := range []driver.Record{before, since} {
		if m, _ := mounted(t, p, r); m == nil || m.Requests[0].Devices[0].NetworkData.InterfaceName != "net1" {
			t.Errorf("%s: mounted %+v after it was switched on again", r.Claim, m)
		}
	}
	p.WithoutMetadata = true
	for _, r := range []driver.Record{before, since} {
		if err := p.Unprepare(t.Context(), r.Claim); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := p.Metadata.Claims("dra.net"); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// What was written of a claim of which no record is left goes with the next agent's
// start, and that of one with a record stays, also where it cannot be read.
func TestMetadataOfAKilledAgent(t *testing.T) {
	n, d := newNode(t), &agenttest.FakeDriver{DriverName: "dra.net"}
	p := n.telling(d)
	r, err := p.Prepare(t.Context(), agenttest.ClaimFor("a", "nic0"))
	if err != nil {
		t.Fatal(err)
	}
	gone := r
	gone.Claim = driver.ClaimRef{UID: "gone-uid", Namespace: "default", Name: "gone"}
	if err := p.Metadata.Write(gone, nil, make([]devicemetadata.Told, 1)); err != nil {
		t.Fatal(err)
	}
	p = n.telling(d)
	if left, err := p.Metadata.Claims("dra.net"); err != nil || len(left) != 1 || left[0] != r.Claim.UID {
		t.Errorf("left: %v, %v; want that of %s", left, err, r.Claim.UID)
	}
	files, err := p.Metadata.Mounts(r)
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.WriteFile(files[0].Source, nil, 0o600); err != nil { // the machine ended before it was on the disk
		t.Fatal(err)
	}
	p = n.telling(d)
	if m, _ := mounted(t, p, r); m != nil {
		t.Errorf("mounted although empty: %+v", m)
	}
	if _, err := p.Prepare(t.Context(), agenttest.ClaimFor("a", "nic0")); err != nil {
		t.Fatal(err)
	}
	if m, _ := mounted(t, p, r); m == nil {
		t.Error("not mounted after it was prepared anew")
	}
}

// While an agent takes over, the one before it goes on preparing claims: their files stay.
func TestPreparedDuringTheTakeover(t *testing.T) {
	n, d := newNode(t), &agenttest.FakeDriver{DriverName: "dra.net"}
	before := n.telling(d)
	if _, err := before.Prepare(t.Context(), agenttest.ClaimFor("a", "nic0")); err != nil {
		t.Fatal(err)
	}
	next := n.telling(d)
	next.Guard = "/plumbline-guard"
	next.InPod = func(driver.Record) ([]guard.NIC, error) { // it writes the spec of a meanwhile
		_, err := before.Prepare(t.Context(), agenttest.ClaimFor("b", "nic1"))
		return nil, err
	}
	if err := next.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := n.specs(next); got != "a-uid b-uid" {
		t.Errorf("CDI specs of %q, want those of both", got)
	}
	if told, err := next.Metadata.Claims("dra.net"); err != nil || len(told) != 2 {
		t.Errorf("metadata of %v, %v; want those of both", told, err)
	}
}

// Whoever makes a claim does not choose where its file is mounted.
func TestMetadataOfAStrangeAnnotation(t *testing.T) {
	for _, name := range []string{"../../../../../etc", "/etc", "", ".", "a/b", "a\x00b"} {
		n, d := newNode(t), &agenttest.FakeDriver{DriverName: "dra.net"}
		p := n.telling(d)
		c := agenttest.ClaimFor("a", "nic0")
		c.Object = &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{resourceapi.PodResourceClaimAnnotation: name}}}
		r, err := p.Prepare(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if _, inside := mounted(t, p, r); inside != "/var/run/kubernetes.io/dra-device-attributes/resourceclaims/a/r/dra.net-metadata.json" {
			t.Errorf("annotation %q: mounted at %q", name, inside)
		}
	}
}

// Whatever a pod did to its interface, its containers are told what the format takes.
func TestMetadataOfACrowdedInterface(t *testing.T) {
	n, d := newNode(t), &agenttest.FakeDriver{DriverName: "dra.net"}
	p := n.telling(d)
	r, err := p.Prepare(t.Context(), agenttest.ClaimFor("a", "nic0"))
	if err != nil {
		t.Fatal(err)
	}
	found := driver.DeviceStatus{Device: "nic0", InterfaceName: "net1"}
	for i := range 40 {
		found.IPs = append(found.IPs, fmt.Sprintf("192.0.2.%d/24", i+1))
	}
	if err := p.DescribeAttached(r, []driver.DeviceStatus{found}); err != nil {
		t.Fatal(err)
	}
	m, _ := mounted(t, p, r)
	if ips := m.Requests[0].Devices[0].NetworkData.IPs; len(ips) != resourceapi.NetworkDeviceDataMaxIPs || ips[0] != "192.0.2.1/24" {
		t.Errorf("%d addresses, from %v on", len(ips), ips[:1])
	}
}

// A claim whose metadata cannot be made is not prepared.
func TestMetadataRefused(t *testing.T) {
	n, d := newNode(t), &agenttest.FakeDriver{DriverName: "dra.net"}
	p := n.telling(d)
	p.Describer = describer{errors.New("record cannot be read")}
	if _, err := p.Prepare(t.Context(), agenttest.ClaimFor("a", "nic0")); err == nil || !strings.Contains(err.Error(), "record cannot be read") {
		t.Errorf("error %v", err)
	}
}
