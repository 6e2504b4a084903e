// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claimcheck

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
)

const asClaimed = `cpus 0-3
mems 0
node 0 0-7
node 1 8-15
nic gpu0rdma0 /sys/devices/pci0000:8c/0000:8c:00.0/0000:91:00.0 0
gpu /dev/dri/card0 226:0 /sys/devices/pci0000:8c/0000:8c:00.0/0000:8f:00.0 0
gpu /dev/nvidia0 195:0 /sys/devices/pci0000:8c/0000:8c:00.0/0000:8f:00.0 0
`

var addresses = map[string]string{"gpu-0": "0000:8f:00.0", "pci-0000-91-00-0": "0000:91:00.0"}

func published(_, device string) (PublishedDevice, bool) {
	a, err := model.ParsePCIAddress(addresses[device])
	return PublishedDevice{Address: a}, err == nil
}

// simulated are the same devices where no driver of a vendor serves them.
func simulated(driver, device string) (PublishedDevice, bool) {
	d, ok := published(driver, device)
	d.Simulated = true
	return d, ok
}

func claim(distinct bool) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{}
	numa := resourceapi.DeviceConstraint{Requests: []string{"cpu-req", "nic-req"}}
	if distinct {
		numa.DistinctAttribute = ptr.To(resourceapi.FullyQualifiedName("dra.net/numaNode"))
	} else {
		numa.MatchAttribute = ptr.To(resourceapi.FullyQualifiedName("dra.net/numaNode"))
	}
	c.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{
		Requests:       []string{"gpu-req", "nic-req"},
		MatchAttribute: ptr.To(resourceapi.FullyQualifiedName("resource.kubernetes.io/pcieRoot")),
	}, numa}
	c.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{
			{Request: "gpu-req", Driver: "gpu.nvidia.com", Device: "gpu-0"},
			{Request: "nic-req", Driver: "dra.net", Device: "pci-0000-91-00-0"},
			{Request: "cpu-req", Driver: "dra.cpu", Device: "cpudevnuma000",
				ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{"dra.cpu/cpu": resource.MustParse("4")}},
		},
	}}
	return c
}

// The lines of the GPU's two files.
const (
	cardLine   = "gpu /dev/dri/card0 226:0 /sys/devices/pci0000:8c/0000:8c:00.0/0000:8f:00.0 0\n"
	nvidiaLine = "gpu /dev/nvidia0 195:0 /sys/devices/pci0000:8c/0000:8c:00.0/0000:8f:00.0 0\n"
)

// A simulated GPU has its DRM node alone.
func TestSimulatedGPU(t *testing.T) {
	observed, err := ParseObservation(strings.Replace(asClaimed, nvidiaLine, "", 1))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range Claim(claim(false), simulated, observed) {
		if !v.OK {
			t.Errorf("%s: %s", v.What, v.Why)
		}
	}
}

// Inside a container nothing says which GPU a file of NVIDIA's is; the node does.
func TestPlacedByTheNode(t *testing.T) {
	node, err := ParseObservation(asClaimed)
	if err != nil {
		t.Fatal(err)
	}
	inside, err := ParseObservation(strings.Replace(asClaimed, nvidiaLine, "gpu /dev/nvidia0 195:0\ngpu /dev/nvidia99 195:1\n", 1))
	if err != nil {
		t.Fatal(err)
	}
	placed := inside.PlacedBy(node)
	if diff := cmp.Diff(node.GPUs, placed.GPUs); diff != "" {
		t.Errorf("GPUs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]File{{Path: "/dev/nvidia99", Number: "195:1"}}, placed.Unplaced); diff != "" {
		t.Errorf("unplaced (-want +got):\n%s", diff)
	}
	if len(inside.GPUs) != 1 || len(inside.GPUs[0].Files) != 1 {
		t.Errorf("what was read has changed: %+v", inside.GPUs)
	}
	other := strings.ReplaceAll(asClaimed, "8f:00.0", "90:00.0")
	if node, err = ParseObservation(other); err != nil {
		t.Fatal(err)
	}
	// The same number leads to another GPU: two devices, of which one was not claimed.
	if got := inside.PlacedBy(node).GPUs; len(got) != 2 || got[1].Address.String() != "0000:90:00.0" || got[1].Name != "/dev/nvidia0" {
		t.Errorf("GPUs %+v", got)
	}
}

// Each case changes one line of the right place; the named result must fail,
// and only because of it.
func TestClaim(t *testing.T) {
	cases := []struct {
		name     string
		change   []string
		distinct bool
		wrong    []string
	}{
		{name: "as claimed"},
		{name: "CPUs of the other node", change: []string{"cpus 0-3", "cpus 8-11"},
			wrong: []string{"cpu-req is 4 CPUs of cpudevnuma000", "cpu-req, nic-req: same numaNode"}},
		{name: "CPUs of both nodes", change: []string{"cpus 0-3", "cpus 0-1,8-9"},
			wrong: []string{"cpu-req is 4 CPUs of cpudevnuma000", "cpu-req, nic-req: same numaNode"}},
		{name: "too many CPUs", change: []string{"cpus 0-3", "cpus 0-4"},
			wrong: []string{"cpu-req is 4 CPUs of cpudevnuma000"}},
		{name: "memory of both nodes", change: []string{"mems 0", "mems 0-1"},
			wrong: []string{"cpu-req is 4 CPUs of cpudevnuma000"}},
		{name: "another NIC", change: []string{"0000:91:00.0 0", "0000:92:00.0 0"},
			wrong: []string{"nic-req is pci-0000-91-00-0", "no other network interface",
				"gpu-req, nic-req: same pcieRoot", "cpu-req, nic-req: same numaNode"}},
		{name: "NIC below another root", change: []string{"nic gpu0rdma0 /sys/devices/pci0000:8c", "nic gpu0rdma0 /sys/devices/pci0000:93"},
			wrong: []string{"gpu-req, nic-req: same pcieRoot"}},
		{name: "GPU missing", change: []string{cardLine, "", nvidiaLine, ""},
			wrong: []string{"gpu-req is gpu-0", "gpu-req, nic-req: same pcieRoot"}},
		{name: "no file for CUDA", change: []string{nvidiaLine, ""}, wrong: []string{"gpu-req is gpu-0"}},
		{name: "no DRM node", change: []string{cardLine, ""}, wrong: []string{"gpu-req is gpu-0"}},
		{name: "another GPU's file for CUDA", change: []string{nvidiaLine, nvidiaLine + "gpu /dev/nvidia99 195:1 /sys/devices/pci0000:8c/0000:8c:00.0/0000:90:00.0 0\n"},
			wrong: []string{"no other GPU"}},
		{name: "another GPU's DRM node", change: []string{nvidiaLine, nvidiaLine + "gpu /dev/dri/card99 226:1 /sys/devices/pci0000:8c/0000:8c:00.0/0000:90:00.0 0\n"},
			wrong: []string{"no other GPU"}},
		{name: "a file of no GPU", change: []string{nvidiaLine, nvidiaLine + "gpu /dev/nvidia99 195:99\n"}, wrong: []string{"no other GPU"}},
		{name: "distinct violated", distinct: true, wrong: []string{"cpu-req, nic-req: distinct numaNode"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			observed, err := ParseObservation(strings.NewReplacer(c.change...).Replace(asClaimed))
			if err != nil {
				t.Fatal(err)
			}
			var wrong []string
			for _, v := range Claim(claim(c.distinct), published, observed) {
				if !v.OK {
					wrong = append(wrong, v.What)
				}
			}
			if got, want := strings.Join(wrong, "\n"), strings.Join(c.wrong, "\n"); got != want {
				t.Errorf("failed results:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func TestParseObservationRefuses(t *testing.T) {
	for _, line := range []string{
		"cpus", "cpus 0-x", "mems 0 1", "node x 0-3", "surprise", "nic eth0 /sys/devices/virtual/net 0",
		"nic eth0 /sys/devices/pci0000:00/0000:00:01.0 -1", "gpu /dev/dri/card0 /sys/devices/pci0000:00/0000:00:01.0 0", "gpu /dev/nvidia0", "gpu /dev/nvidia0 195:0 - -",
	} {
		if _, err := ParseObservation(line + "\n"); err == nil {
			t.Errorf("line %q was accepted", line)
		}
	}
}

func FuzzParseObservation(f *testing.F) {
	f.Add(asClaimed)
	f.Fuzz(func(t *testing.T, text string) {
		observed, err := ParseObservation(text)
		if err != nil {
			return
		}
		for _, l := range append(observed.NICs, observed.GPUs...) {
			if l.Root == "" || l.NUMANode < 0 {
				t.Errorf("accepted %+v", l)
			}
		}
	})
}
