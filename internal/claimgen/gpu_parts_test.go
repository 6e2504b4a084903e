// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claimgen_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/claimgen"
	"plumbline.dev/plumbline/internal/vendorconfig/nvidia"
)

// partitioned makes each GPU two MIG devices of 3g.71gb and one of 1g.18gb, which have the
// place of their GPU, as NVIDIA's driver publishes static ones.
func partitioned(c *allocation.Cluster) {
	for _, s := range c.Slices {
		if s.Spec.Driver != gpuDriver {
			continue
		}
		var parts []resourceapi.Device
		for _, gpu := range s.Spec.Devices {
			for i, profile := range []string{"3g.71gb", "3g.71gb", "1g.18gb"} {
				part := *gpu.DeepCopy()
				part.Name = fmt.Sprintf("%s-mig-%d", gpu.Name, i)
				for name, value := range map[string]string{"type": "mig", "profile": profile, "parentUUID": gpu.Name} {
					delete(part.Attributes, resourceapi.QualifiedName("gpu.nvidia.com/"+name))
					part.Attributes[resourceapi.QualifiedName(name)] = resourceapi.DeviceAttribute{StringValue: ptr.To(value)}
				}
				parts = append(parts, part)
			}
		}
		s.Spec.Devices = parts
	}
}

// shared lets claims have parts of each GPU, as NVIDIA's driver does with
// --consumable-shares=4.
func shared(c *allocation.Cluster) {
	quantity := func(s string) *resource.Quantity { return ptr.To(resource.MustParse(s)) }
	capacity := func(value, least, step string) resourceapi.DeviceCapacity {
		return resourceapi.DeviceCapacity{Value: *quantity(value), RequestPolicy: &resourceapi.CapacityRequestPolicy{
			Default: quantity(least), ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: quantity(least), Max: quantity(value), Step: quantity(step)},
		}}
	}
	for _, s := range c.Slices {
		for i := range s.Spec.Devices {
			if d := &s.Spec.Devices[i]; s.Spec.Driver == gpuDriver {
				d.AllowMultipleAllocations = ptr.To(true)
				d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"shares": capacity("4", "1", "1"), "memory": capacity("140Gi", "0", "1Mi")}
			}
		}
	}
}

// Parts of GPUs are allocated as many times as there are parts, beside the NICs and CPUs
// of their GPU.
func TestPartsOfGPUs(t *testing.T) {
	asIs := func(*allocation.Cluster) {}
	mig := func(gpus int, profile string) claimgen.Options {
		return claimgen.Options{GPUs: gpus, MIGProfile: profile, Align: claimgen.PCIe}
	}
	share := func(gpus int, of string) claimgen.Options {
		return claimgen.Options{GPUs: gpus, GPUShare: of, Align: claimgen.PCIe}
	}
	with := func(o claimgen.Options, change func(*claimgen.Options)) claimgen.Options {
		change(&o)
		return o
	}
	pair := func(o *claimgen.Options) { o.NICs, o.CPUs = 1, 4 }
	together := func(o *claimgen.Options) { o.SameGPU = true }
	for _, tc := range []struct {
		name   string
		change func(*allocation.Cluster)
		o      claimgen.Options
		want   int
	}{
		{"MIG devices", partitioned, mig(1, "3g.71gb"), 16},
		{"of another profile", partitioned, mig(1, "1g.18gb"), 8},
		{"of none", partitioned, mig(1, "7g.141gb"), 0},
		{"where there are none", asIs, mig(1, "3g.71gb"), 0},
		{"two", partitioned, mig(2, "3g.71gb"), 8},
		{"two of one GPU", partitioned, with(mig(2, "3g.71gb"), together), 8},
		{"three of one GPU", partitioned, with(mig(3, "3g.71gb"), together), 0},
		{"three of any profile of one GPU", partitioned, claimgen.Options{GPUs: 3, GPUClass: "mig.nvidia.com", SameGPU: true, Align: claimgen.PCIe}, 8},
		{"whole GPUs", partitioned, claimgen.Options{GPUs: 1, Align: claimgen.PCIe}, 0},
		{"one with a NIC and CPUs", partitioned, with(mig(1, "3g.71gb"), pair), 8},
		{"one with a NIC, by NUMA node", partitioned, with(mig(1, "3g.71gb"), func(o *claimgen.Options) { pair(o); o.Align = claimgen.NUMA }), 8},
		{"one with a NIC from farther away", partitioned, with(mig(1, "3g.71gb"), func(o *claimgen.Options) { o.NICs, o.Fallback = 1, []string{claimgen.NUMA} }), 8},
		{"of a product", partitioned, with(mig(1, "3g.71gb"), func(o *claimgen.Options) { o.GPUProduct = "NVIDIA H200" }), 16},

		{"a share", shared, share(1, "shares"), 32},
		{"two shares", shared, share(1, "shares=2"), 16},
		{"three shares", shared, share(1, "shares=3"), 8},
		{"more shares than there are", shared, share(1, "shares=5"), 0},
		{"a share of each of two GPUs", shared, share(2, "shares=2"), 8},
		{"a share of each GPU", shared, share(8, "shares=2"), 2},
		{"a share of more GPUs than there are", shared, share(9, "shares"), 0},
		{"shares where there are none", asIs, share(1, "shares"), 0},
		{"memory", shared, share(1, "memory=70Gi"), 16},
		{"all memory", shared, share(1, "memory=141Gi"), 0},
		{"memory of GPUs that are not shared", asIs, share(1, "memory=1Gi"), 0},
		{"a share with a NIC and CPUs", shared, with(share(1, "shares=2"), pair), 8},
		{"a share with a NIC from farther away", shared, with(share(1, "shares=4"), func(o *claimgen.Options) { o.NICs, o.Fallback = 1, []string{claimgen.NUMA} }), 8},
		{"a share of a MIG device", func(c *allocation.Cluster) { partitioned(c); shared(c) }, with(share(1, "shares=4"), func(o *claimgen.Options) { o.MIGProfile = "3g.71gb" }), 16},
		{"GPUs by time", asIs, share(2, "time-slicing=Long"), 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := cluster(t, "a3-ultragpu-8g")
			tc.change(c)
			pods := fill(t, c, tc.o)
			if len(pods) != tc.want {
				t.Fatalf("%d claims fit, want %d", len(pods), tc.want)
			}
			for _, pod := range pods {
				gpus := gpusOf(pod[0])
				if n := len(slices.Compact(slices.Clone(gpus))); tc.o.SameGPU && n != 1 || tc.o.TakesShares() && n != tc.o.GPUs {
					t.Errorf("%s has parts of %v", pod[0].Name, gpus)
				}
				aligned(t, c, pod[0], tc.o)
			}
		})
	}
}

// gpusOf are the GPUs of which a claim has devices, sorted, each as often as it has.
func gpusOf(claim *resourceapi.ResourceClaim) []string {
	var all []string
	for _, r := range claim.Status.Allocation.Devices.Results {
		if r.Driver == gpuDriver {
			gpu, _, _ := strings.Cut(r.Device, "-mig-")
			all = append(all, gpu)
		}
	}
	slices.Sort(all)
	return all
}

// Time slices are asked for as NVIDIA's driver reads them, for all GPUs of the claim.
func TestTimeSlices(t *testing.T) {
	for share, interval := range map[string]string{"time-slicing": "", "time-slicing=Short": "Short"} {
		for _, fallback := range [][]string{nil, {claimgen.NUMA}} {
			spec, err := claimgen.Spec(claimgen.Options{GPUs: 2, NICs: 2, MTU: 1500, GPUShare: share, Fallback: fallback, Align: claimgen.PCIe})
			if err != nil || len(spec.Devices.Config) != 2 {
				t.Fatal(err, spec)
			}
			config := spec.Devices.Config[1]
			if config.Opaque.Driver != gpuDriver || len(config.Requests) > 0 {
				t.Errorf("%+v", config)
			}
			decoded, err := nvidia.Decode(config.Opaque.Parameters.Raw)
			if err != nil || len(decoded.Mistakes()) > 0 {
				t.Fatal(err, decoded)
			}
			c, ok := decoded.(*nvidia.GPUConfig)
			if !ok || c.Sharing.Strategy != "TimeSlicing" || (interval == "") != (c.Sharing.TimeSlicingConfig == nil) {
				t.Fatalf("%+v", decoded)
			}
			if interval != "" && *c.Sharing.TimeSlicingConfig.Interval != interval {
				t.Errorf("%s: %s", share, *c.Sharing.TimeSlicingConfig.Interval)
			}
		}
	}
}

// Names of profiles are those that NVIDIA gives.
func TestMIGProfiles(t *testing.T) {
	for profile, good := range map[string]bool{
		"1g.10gb": true, "7g.141gb": true, "1g.10gb+me": true, "1g.24gb+me.all": true, "2g.48gb-me": true, "4g.96gb+gfx": true, "1c.3g.40gb": true,
		"1g": false, "10gb": false, "1G.10GB": false, "1g.10Gi": false, "0g.10gb": false, "mig-1g.10gb": false, `1g.10gb" || true`: false, "1g.10gb+": false, "1g.10gb ": false,
	} {
		_, err := claimgen.Spec(claimgen.Options{GPUs: 1, MIGProfile: profile, Align: claimgen.PCIe})
		if (err == nil) != good {
			t.Errorf("%q: %v", profile, err)
		}
	}
}

func TestPartsRefused(t *testing.T) {
	const amounts = "want shares or such as shares=2, such as memory=20Gi, or time-slicing or such as time-slicing=Long"
	for want, o := range map[string]claimgen.Options{
		`--mig-profile "1g.10gb" is for MIG devices: want --gpus with it, how many`:                                                      {NICs: 1, MIGProfile: "1g.10gb"},
		`--mig-profile "1g": want a profile as nvidia-smi mig -lgip names it, such as 1g.10gb or 1g.10gb+me`:                             {GPUs: 1, MIGProfile: "1g"},
		`--mig-profile "1g.10gb" with --gpu-class gpu.nvidia.com, which has no MIG devices: want mig.nvidia.com, or a class of your own`: {GPUs: 1, MIGProfile: "1g.10gb", GPUClass: "gpu.nvidia.com"},
		`--mig-profile "1g.10gb" with --gpu-class gpu.amd.com, which has no MIG devices: want mig.nvidia.com, or a class of your own`:    {GPUs: 1, MIGProfile: "1g.10gb", GPUClass: "gpu.amd.com"},
		"--mig-same-gpu is for MIG devices: want --mig-profile with it":                                                                  {GPUs: 2, SameGPU: true},
		"--mig-same-gpu wants all MIG devices of one GPU, and 2 parts are each elsewhere: want one of them":                              {GPUs: 2, SameGPU: true, MIGProfile: "1g.10gb", NUMANodes: 2},
		"--mig-same-gpu with --gpus 8: a GPU has 7 MIG devices at most":                                                                  {GPUs: 8, SameGPU: true, MIGProfile: "1g.10gb"},
		`--gpu-share "shares" is for GPUs: want --gpus with it`:                                                                          {NICs: 1, GPUShare: "shares"},
		`--gpu-share "half": ` + amounts:                                                                                                                           {GPUs: 1, GPUShare: "half"},
		`--gpu-share "shares=0": want a number of shares from 1 on, such as shares=2`:                                                                              {GPUs: 1, GPUShare: "shares=0"},
		`--gpu-share "shares=": want a number of shares from 1 on, such as shares=2`:                                                                               {GPUs: 1, GPUShare: "shares="},
		`--gpu-share "memory": want an amount of memory from 1Mi on, such as memory=20Gi`:                                                                          {GPUs: 1, GPUShare: "memory"},
		`--gpu-share "memory=20": want an amount of memory from 1Mi on, such as memory=20Gi`:                                                                       {GPUs: 1, GPUShare: "memory=20"},
		`--gpu-share "memory=20GB": want an amount of memory from 1Mi on, such as memory=20Gi`:                                                                     {GPUs: 1, GPUShare: "memory=20GB"},
		`--gpu-share "time-slicing=1s": want one of time-slicing=Default, time-slicing=Short, time-slicing=Medium, time-slicing=Long`:                              {GPUs: 1, GPUShare: "time-slicing=1s"},
		"--gpu-share shares is what NVIDIA's driver knows, and GPUs of class gpu.intel.com are others: want --gpu-class gpu.nvidia.com":                            {GPUs: 1, GPUShare: "shares", GPUClass: "gpu.intel.com"},
		"--gpu-share shares with --gpu-class vfio.gpu.nvidia.com: a GPU that is passed through is not shared":                                                      {GPUs: 1, GPUShare: "shares", GPUClass: "vfio.gpu.nvidia.com"},
		"--gpu-share time-slicing with MIG devices: time slices are those of whole GPUs: want --gpu-share shares or memory, or whole GPUs":                         {GPUs: 1, GPUShare: "time-slicing", MIGProfile: "1g.10gb"},
		"--gpu-share memory with --gpus 2 MIG devices: the parts could all be of one, as no attribute tells MIG devices apart: want --gpus 1, or a claim for each": {GPUs: 2, GPUShare: "memory=5Gi", GPUClass: "mig.nvidia.com"},
	} {
		o.Align = claimgen.PCIe
		if _, err := claimgen.Spec(o); err == nil || err.Error() != want {
			t.Errorf("%+v:\n%v, want\n%s", o, err, want)
		}
	}
}
