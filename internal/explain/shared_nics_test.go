// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/explain"
	. "plumbline.dev/plumbline/internal/explain/explaintest"
	"plumbline.dev/plumbline/internal/explain/fixes"
	"plumbline.dev/plumbline/internal/explain/reason"
	"plumbline.dev/plumbline/internal/explain/snapshot"
	"plumbline.dev/plumbline/internal/model"
)

const hcaResource = "rdma/hca_shared_devices_a"

// shareNIC has the first NIC be shared in two slots and 100 Gbit/s.
func shareNIC(s *snapshot.Objects) {
	ShareNICs(s.Slices, model.Share{Type: model.ShareMacvlan, Slots: 2, Bandwidth: 100e9}, A3NICs[0])
	s.Classes["hca-shared-devices-a"] = s.Classes["shared.dra.net"].DeepCopy()
	s.Classes["hca-shared-devices-a"].Name = "hca-shared-devices-a"
	s.Classes["hca-shared-devices-a"].Spec.ExtendedResourceName = ptr.To(hcaResource)
}

// holdingShare is a claim with a share of the first NIC.
func holdingShare(name, bandwidth string) *resourceapi.ResourceClaim {
	c := Holding(name, nicID(0))
	r := &c.Status.Allocation.Devices.Results[0]
	r.ShareID = ptr.To(types.UID("share-" + name))
	r.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"dra.net/slots": resource.MustParse("1"), "dra.net/bandwidth": resource.MustParse(bandwidth)}
	return c
}

func share(bandwidth string) resourceapi.DeviceRequest {
	r := Request("nic", "shared.dra.net", 1)
	if bandwidth != "" {
		r.Exactly.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"dra.net/bandwidth": resource.MustParse(bandwidth)}}
	}
	return r
}

// hcaPod asks for the resource of the shared RDMA device plugin, and for nothing else.
func hcaPod() *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "rdma-test-pod-1"}}
	p.Spec.Containers = []corev1.Container{{Name: "rdma", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{hcaResource: resource.MustParse("1")}}}}
	return p
}

func causesOfShares() []cause {
	taken := func(bandwidth ...string) func(*snapshot.Objects) {
		return func(s *snapshot.Objects) {
			shareNIC(s)
			for i, b := range bandwidth {
				s.Claims = append(s.Claims, holdingShare("share-"+string(rune('a'+i)), b))
			}
		}
	}
	return []cause{
		{
			name: "no slot of a shared NIC is left", seed: taken("0", "0"), requests: []resourceapi.DeviceRequest{share("")},
			code: reason.Held, says: []string{"dra.net/slots"}, fix: fixes.Free, fixSays: "claim default/share-a (pod share-a-0)",
		},
		{
			name: "too little bandwidth of a shared NIC is left", seed: taken("80G"), requests: []resourceapi.DeviceRequest{share("40G")},
			code: reason.Held, says: []string{"dra.net/bandwidth"}, fix: fixes.Free, fixSays: "claim default/share-a (pod share-a-0)",
		},
		{
			name: "more bandwidth than a NIC is offered with", seed: taken(), requests: []resourceapi.DeviceRequest{share("101G")},
			code: reason.Capacity, says: []string{"dra.net/bandwidth", "100G"},
		},
		{
			name: "no NIC of the node is shared", requests: []resourceapi.DeviceRequest{share("")},
			code: reason.TooFew, says: []string{"wants class shared.dra.net, and driver dra.net publishes no such device for the node: a HostPolicy offers NICs to share (links[].share)"},
		},
		{
			name: "no slot is left for an extended resource", seed: taken("0", "0"), pod: hcaPod(),
			code: reason.Held, says: []string{"hca-shared-devices-a", "dra.net/slots"}, fix: fixes.Free, fixSays: "claim default/share-b (pod share-b-0)",
		},
	}
}

// A pod that was written for the device plugin fits where a slot is free, and nothing says of
// it that it has no claim.
func TestPodOfSharedRDMADevicePlugin(t *testing.T) {
	s := A3(t, 1)
	shareNIC(&s)
	s.Claims = append(s.Claims, holdingShare("share-a", "100G"))
	r, out := text(t, s, explain.OfPod(hcaPod(), nil, nil, s.Classes))
	if r.Verdict != explain.Fits || strings.Contains(out, "asks for no devices") {
		t.Errorf("%s\n%s", r.Verdict, out)
	}
}
