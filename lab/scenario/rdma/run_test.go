// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"os"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model/slicecodec"
)

func TestResult(t *testing.T) {
	const out = ` Max inline data : 0[B]
 2 5 1 1
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]
 2          5           0.000004            0.000004            0.000257
 8388608    5           0.067521            0.067521            0.000001
`
	if got, want := result(out, "8388608"), "8388608 5 0.067521 0.067521 0.000001 (#bytes #iterations BW peak[Gb/sec])"; got != want {
		t.Errorf("result %q, want %q", got, want)
	}
	for _, bytes := range []string{"83886", "4"} {
		if got := result(out, bytes); got != "" {
			t.Errorf("result of %s bytes: %q, want none", bytes, got)
		}
	}
}

func TestToldRight(t *testing.T) {
	const right = `=rxe1:1 rxe1:1 =net1
1
0000:0000:0000:0000:0000:ffff:0a63:0002
RoCE v2
1
/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/rdma/nic/dra.net-metadata.json
`
	for name, c := range map[string]struct {
		from, to string
		want     bool
	}{
		"right":             {"", "", true},
		"another device":    {"=rxe1:1", "=rxe2:1", false},
		"RoCE v1":           {"RoCE v2", "IB/RoCE v1", false},
		"another GID":       {"ffff:0a63:0002", "ffff:0a63:0001", false},
		"no topology file":  {"\n1\n/var", "\n0\n/var", false},
		"no metadata":       {"dra.net-metadata.json", "", false},
		"nothing was said":  {right, "", false},
		"another interface": {"=net1", "=eth0", false},
	} {
		out := strings.Replace(right, c.from, c.to, 1)
		if got := toldRight(out, "rxe1", addresses[client]); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestRDMADevice(t *testing.T) {
	published := []resourceapi.ResourceSlice{{Spec: resourceapi.ResourceSliceSpec{Devices: []resourceapi.Device{
		{Name: "a"},
		{Name: "b", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{slicecodec.AttrRDMADevice: {StringValue: ptr.To("mlx5_2")}}},
	}}}}
	if got, err := rdmaDevice(published, "b"); got != "mlx5_2" || err != nil {
		t.Errorf("RDMA device of b: %q, %v", got, err)
	}
	if got, err := rdmaDevice(published, "a"); err == nil {
		t.Errorf("RDMA device of a: %q, want an error", got)
	}
}

// What docs/rdma.md has readers apply is what runs here.
func TestDocumentedManifests(t *testing.T) {
	text, err := os.ReadFile("../../../docs/rdma.md")
	if err != nil {
		t.Fatal(err)
	}
	for part := range strings.SplitSeq(manifests+"---\n"+alignmentManifests, "---\n") {
		if !strings.Contains(string(text), strings.TrimSpace(part)) {
			t.Errorf("docs/rdma.md lacks\n%s", part)
		}
	}
}

func TestParsePlace(t *testing.T) {
	p, err := parsePlace("0\n1\n0 0-1\n1 2-3\n")
	if err != nil || p.nic != 0 || p.near.String() != "0-1" || p.cpus.String() != "1" {
		t.Errorf("place %+v, %v", p, err)
	}
	for name, out := range map[string]string{
		"nothing": "", "a NIC of no node": "-1\n1\n0 0-1\n", "no CPUs": "0\n\n0 0-1\n", "no number": "?\n1\n0 0-1\n",
	} {
		if p, err := parsePlace(out); err == nil {
			t.Errorf("%s: %+v, want an error", name, p)
		}
	}
}
