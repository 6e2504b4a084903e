// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verifytest

import (
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// hostIndex is the index of a NIC's interface on the host.
func hostIndex(i int) int { return 100 + i }

// Share has the node offer a NIC of the machine's list to many pods, and show its interface
// on the host.
func (n *Node) Share(t testing.TB, i int, share model.Share) {
	t.Helper()
	own := *n.Machine // a shipped machine is everybody's
	own.NICs = slices.Clone(own.NICs)
	own.NICs[i].Share = &share
	n.Machine = &own
	n.ShowOnHost(t, i)
}

// ShowOnHost shows a NIC's interface in the host's /sys.
func (n *Node) ShowOnHost(t testing.TB, i int) {
	t.Helper()
	nic := n.Machine.NICs[i]
	link := "sys/class/net/" + nic.Interface.Name
	if _, err := os.Lstat(n.Path(link)); err == nil {
		t.Fatalf("%s is there", link)
	}
	dir := fmt.Sprintf("%s/net/%s", n.devicePath(*nic.PCI), nic.Interface.Name)
	n.link(t, link, "../../"+dir)
	n.write(t, "sys/"+dir+"/ifindex", fmt.Sprintf("%d\n", hostIndex(i)))
}

// GiveShare makes the pod hold a share of a NIC that the node offers, with parameters of the
// claim, and returns the claim that says so.
func (n *Node) GiveShare(p *Pod, i int, parameters string) AllocatedPod {
	b := newBuilder(n, p, Ours())
	nic := n.Machine.NICs[i]
	device, share := slicecodec.NICName(nic), types.UID("share-"+p.UID)
	b.result("nic", slicecodec.DriverNet, device).ShareID = &share
	b.claim.Status.Allocation.Devices.Config = []resourceapi.DeviceAllocationConfiguration{{
		Source: resourceapi.AllocationConfigSourceClaim, Requests: []string{"nic"},
		DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
			Driver: slicecodec.DriverNet, Parameters: runtime.RawExtension{Raw: []byte(parameters)},
		}},
	}}
	b.claim.Status.Devices = []resourceapi.AllocatedDeviceStatus{{
		Driver: slicecodec.DriverNet, Pool: n.Name, Device: device, ShareID: ptr.To(string(share)),
		NetworkData: &resourceapi.NetworkDeviceData{InterfaceName: "net1", HardwareAddress: "02:00:00:00:00:01", IPs: []string{Address + "/24"}},
	}}
	if nic.RDMA != nil {
		b.claim.Status.Devices[0].Conditions = []metav1.Condition{{Type: "RDMALinkReady", Status: metav1.ConditionTrue}}
		p.Files[fmt.Sprintf("/dev/infiniband/uverbs%d", i)] = n.RDMANumber(i)
		p.Files["/dev/infiniband/rdma_cm"] = CMNumber
	}
	sum := sha256.Sum256([]byte(string(b.claim.UID) + "/nic/" + device + "/" + string(share)))
	p.Links["net1"] = Link{NIC: i, Alias: fmt.Sprintf("plumbline-%x", sum[:10]), Kind: nic.Share.Type}
	return AllocatedPod{Pod: b.pod(), Claim: b.claim, Slices: Ours().Slices(n)}
}

// AsExtended makes the claim that of extended resources, which the scheduler has made for a
// pod that names none.
func (p AllocatedPod) AsExtended(name corev1.ResourceName) AllocatedPod {
	pod := p.Pod.DeepCopy()
	pod.Spec.ResourceClaims, pod.Spec.Containers[0].Resources = nil, corev1.ResourceRequirements{Limits: corev1.ResourceList{name: resource.MustParse("1")}}
	pod.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{
		ResourceClaimName: p.Claim.Name,
		RequestMappings:   []corev1.ContainerExtendedResourceRequest{{ContainerName: "main", ResourceName: string(name), RequestName: "nic"}},
	}
	p.Pod = pod
	return p
}
