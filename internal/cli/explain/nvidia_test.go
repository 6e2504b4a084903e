// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/cli/clitest"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/explain/explaintest"
	"plumbline.dev/plumbline/internal/explain/snapshot"
)

// ofNVIDIA is a cluster with what NVIDIA's own driver published, where claims c0, c1, … hold
// devices of a node. A share takes the amounts of its capacities. Each seed but 0 is another
// order of devices.
func ofNVIDIA(t *testing.T, seed uint64, node string, held []string, share map[resourceapi.QualifiedName]resource.Quantity) *fake.Clientset {
	t.Helper()
	objects := clitest.Nodes(t, "../testdata/nvidia")
	if seed > 0 {
		objects = clitest.Shuffled(objects, seed)
	}
	for name, kind := range map[string]string{"gpu.nvidia.com": "gpu", "mig.nvidia.com": "mig"} {
		objects = append(objects, explaintest.Class(name, fmt.Sprintf("device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == '%s'", kind)))
	}
	for i, device := range held {
		c := explaintest.Holding(fmt.Sprintf("c%d", i), snapshot.DeviceID{Driver: "gpu.nvidia.com", Pool: node, Device: device})
		if share != nil {
			result := &c.Status.Allocation.Devices.Results[0]
			result.ConsumedCapacity, result.ShareID = share, ptr.To(types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", i)))
		}
		objects = append(objects, runtime.Object(c))
	}
	client := fake.NewClientset(objects...)
	client.Discovery().(*fakediscovery.FakeDiscovery).FakedServerVersion = &version.Info{Major: "1", Minor: "37"}
	return client
}

const (
	migClaim = `
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: more}
spec:
  devices:
    requests:
    - name: mig
      exactly:
        deviceClassName: mig.nvidia.com
        selectors: [{cel: {expression: 'device.attributes["gpu.nvidia.com"].profile == "PROFILE"'}}]
`
	shareClaim = `
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: more}
spec:
  devices:
    requests:
    - {name: gpu, exactly: {deviceClassName: gpu.nvidia.com, capacity: {requests: {CAPACITY}}}}
`
)

// A partition that does not fit beside those that are given out is told by the counters
// that are used up, a share by its capacity.
func TestPartitionsAndSharesOfNVIDIAsDriver(t *testing.T) {
	placed := func(count int) (names []string) {
		for i := range count {
			names = append(names, fmt.Sprintf("gpu-0-mig-1g18gb-19-%d", i))
		}
		return names
	}
	four := []string{"gpu-0", "gpu-0", "gpu-0", "gpu-0"}
	amounts := func(shares, memory string) map[resourceapi.QualifiedName]resource.Quantity {
		return map[resourceapi.QualifiedName]resource.Quantity{"shares": resource.MustParse(shares), "memory": resource.MustParse(memory)}
	}
	mig := func(profile string) string { return strings.Replace(migClaim, "PROFILE", profile, 1) }
	share := func(capacity string) string { return strings.Replace(shareClaim, "CAPACITY", capacity, 1) }
	for _, tc := range []struct {
		name, node, claim string
		held              []string
		share             map[resourceapi.QualifiedName]resource.Quantity
		fits              bool
		says              []string
	}{
		{name: "a partition of a free GPU", node: "nvidia-mig", claim: mig("1g.18gb"), fits: true},
		{name: "a second one of the GPU", node: "nvidia-mig", claim: mig("1g.18gb"), held: placed(1), fits: true},
		{name: "the seventh", node: "nvidia-mig", claim: mig("1g.18gb"), held: placed(6), fits: true},
		{
			name: "the eighth", node: "nvidia-mig", claim: mig("1g.18gb"), held: placed(7),
			says: []string{"7 devices match, 0 free", "held by default/c6 (1)"},
		},
		{
			name: "an eighth of another profile", node: "nvidia-mig", claim: mig("1g.18gb+me"), held: placed(7),
			says: []string{"mig wants 1 device of class mig.nvidia.com; 7 devices are parts of the same hardware as others that are given out, too little left of gpu-0-counter-set/decoders and gpu-0-counter-set/jpeg-engines"},
		},
		{
			name: "a seventh beside one of another profile", node: "nvidia-mig", claim: mig("1g.18gb"), held: append(placed(6), "gpu-0-mig-1g18gb-me-20-6"),
			says: []string{"parts of hardware that is given out, too little left of gpu-0-counter-set/decoders, gpu-0-counter-set/jpeg-engines and gpu-0-counter-set/memory-slice-6 (1)"},
		},
		{
			name: "a half beside one in each", node: "nvidia-mig", claim: mig("3g.71gb"),
			held: []string{"gpu-0-mig-1g18gb-19-0", "gpu-0-mig-1g18gb-19-4"},
			says: []string{"2 devices are parts of the same hardware", "too little left of gpu-0-counter-set/memory-slice-0 and gpu-0-counter-set/memory-slice-4"},
		},
		{
			name: "the whole GPU", node: "nvidia-mig", claim: strings.ReplaceAll(share(""), ", capacity: {requests: {}}", ""), held: placed(1),
			says: []string{"too little left of gpu-0-counter-set/copy-engines, gpu-0-counter-set/decoders"},
		},
		{name: "a profile that the GPU lacks", node: "nvidia-mig", claim: mig("1g.10gb"), says: []string{"their gpu.nvidia.com/profile is"}},
		{name: "a partition that was made before", node: "nvidia-mig-static", claim: mig("3g.71gb"), fits: true},
		{
			name: "a second one", node: "nvidia-mig-static", claim: mig("3g.71gb"), held: []string{"gpu-0-mig-3g71gb-9-4"},
			says: []string{"1 device matches, 0 free", "held by default/c0 (1)"},
		},
		{
			// Nobody makes others, however much of the GPU is free.
			name: "a partition that was not made", node: "nvidia-mig-static", claim: mig("1g.35gb"),
			says: []string{"their gpu.nvidia.com/profile is 1g.18gb (2), 2g.35gb (1), 3g.71gb (1)"},
		},
		{name: "the GPU that was not cut", node: "nvidia-mig-static", claim: strings.ReplaceAll(share(""), ", capacity: {requests: {}}", ""), held: []string{"gpu-0-mig-3g71gb-9-4"}, fits: true},
		{
			name: "a GPU beside it", node: "nvidia-mig-static", claim: strings.ReplaceAll(share(""), ", capacity: {requests: {}}", ""), held: []string{"gpu-2"},
			says: []string{"1 device matches, 0 free"},
		},
		{name: "the fourth share", node: "nvidia-shares", claim: share("shares: 1"), held: four[:3], share: amounts("1", "16Gi"), fits: true},
		{
			name: "the fifth share", node: "nvidia-shares", claim: share("shares: 1"), held: four, share: amounts("1", "16Gi"),
			says: []string{"1 device matches, 0 free, too little left of shares", "too little shares left beside what is held by default/c0"},
		},
		{
			name: "a share of too much memory", node: "nvidia-shares", claim: share("shares: 1, memory: 100Gi"), held: four[:1], share: amounts("1", "100Gi"),
			says: []string{"too little memory left beside what is held by default/c0"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for seed := range uint64(3) {
				out, err := run(t, tc.claim, ofNVIDIA(t, seed, tc.node, tc.held, tc.share), "-f", "-", "--node", tc.node)
				if fits := err == nil; fits != tc.fits || !fits && !errors.Is(err, cmdutil.ErrReported) {
					t.Errorf("order %d: %v, want that it fits: %v\n%s", seed, err, tc.fits, out)
				}
				for _, words := range tc.says {
					if !strings.Contains(out, words) {
						t.Errorf("order %d does not say %q:\n%s", seed, words, out)
					}
				}
			}
		})
	}
}
