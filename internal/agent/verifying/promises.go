// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verifying

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/verify/expect"
)

const (
	// askAtMost bounds one question to the API server.
	askAtMost = 10 * time.Second
	// askAgain is how soon the API server is asked again for what it did not have.
	askAgain = 30 * time.Second
)

// promises knows what pods were promised. A claim's allocation stays as it is
// while a pod has it, so that each claim is read once; slices are read anew when
// a device of a claim is in none that was read.
type promises struct {
	client kubernetes.Interface
	node   string
	now    func() time.Time

	claims map[types.UID]*podClaims
	// published are the attributes of devices that claims hold; absent ones were
	// looked for and not found.
	published expect.Published
	absent    map[expect.ID]bool
	listed    time.Time
}

// podClaims are the claims of one pod by name, and when to ask for more.
type podClaims struct {
	byName map[string]*resourceapi.ResourceClaim
	again  time.Time
}

func newPromises(client kubernetes.Interface, node string) *promises {
	return &promises{
		client: client, node: node, now: time.Now,
		claims: map[types.UID]*podClaims{}, published: expect.Published{}, absent: map[expect.ID]bool{},
	}
}

// of reads what the pods were promised, those that end left out.
func (p *promises) of(ctx context.Context, pods []*corev1.Pod) []expect.Pod {
	seen := map[types.UID]bool{}
	var live []*corev1.Pod
	for _, pod := range pods {
		seen[pod.UID] = true
		if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning {
			continue
		}
		live = append(live, pod)
		p.readClaims(ctx, pod)
	}
	maps.DeleteFunc(p.claims, func(uid types.UID, _ *podClaims) bool { return !seen[uid] })
	p.readSlices(ctx)
	out := make([]expect.Pod, 0, len(live))
	for _, pod := range live {
		out = append(out, expect.PodOf(pod, p.claims[pod.UID].byName, p.published))
	}
	return out
}

func (p *promises) readClaims(ctx context.Context, pod *corev1.Pod) {
	known := p.claims[pod.UID]
	if known == nil {
		known = &podClaims{byName: map[string]*resourceapi.ResourceClaim{}}
		p.claims[pod.UID] = known
	}
	if p.now().Before(known.again) {
		return
	}
	for _, name := range expect.ClaimNames(pod) {
		if have := known.byName[name]; have != nil && complete(have) {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, askAtMost)
		claim, err := p.client.ResourceV1().ResourceClaims(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
		cancel()
		if err != nil || !complete(claim) {
			known.again = p.now().Add(askAgain)
		}
		if err != nil {
			if !apierrors.IsNotFound(err) {
				klog.FromContext(ctx).Info("claim not read", "claim", klog.KRef(pod.Namespace, name), "reason", err.Error())
			}
			continue
		}
		known.byName[name] = small(claim)
	}
}

// complete says whether a claim says all it ever will: of an interface that is no
// PCI function the driver says the name, once the pod has it.
func complete(c *resourceapi.ResourceClaim) bool {
	if c.Status.Allocation == nil {
		return false
	}
	for _, d := range expect.ClaimOf(c, nil).Devices {
		if d.Kind == expect.NIC && d.PCI == nil && d.Interface == "" {
			return false
		}
	}
	return true
}

// small keeps of a claim what a promise is made of.
func small(c *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	s := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name, UID: c.UID}}
	s.Spec.Devices.Constraints = c.Spec.Devices.Constraints
	if c.Status.Allocation != nil {
		s.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: c.Status.Allocation.Devices.Results}}
	}
	for _, d := range c.Status.Devices {
		if d.NetworkData != nil {
			s.Status.Devices = append(s.Status.Devices, resourceapi.AllocatedDeviceStatus{
				Driver: d.Driver, Pool: d.Pool, Device: d.Device, ShareID: d.ShareID,
				NetworkData: &resourceapi.NetworkDeviceData{
					InterfaceName: d.NetworkData.InterfaceName, HardwareAddress: d.NetworkData.HardwareAddress,
				},
			})
		}
	}
	return s
}

// wanted are the devices that claims hold.
func (p *promises) wanted() map[expect.ID]bool {
	wanted := map[expect.ID]bool{}
	for _, claims := range p.claims {
		for _, c := range claims.byName {
			if c.Status.Allocation == nil {
				continue
			}
			for _, r := range c.Status.Allocation.Devices.Results {
				wanted[expect.ID{Driver: r.Driver, Pool: r.Pool, Device: r.Device}] = true
			}
		}
	}
	return wanted
}

// readSlices lists the node's slices when a device is new, and again a while
// later when it was in none.
func (p *promises) readSlices(ctx context.Context) {
	wanted := p.wanted()
	maps.DeleteFunc(p.published, func(id expect.ID, _ map[resourceapi.QualifiedName]resourceapi.DeviceAttribute) bool {
		return !wanted[id]
	})
	maps.DeleteFunc(p.absent, func(id expect.ID, _ bool) bool { return !wanted[id] })
	fresh, missing := false, false
	for id := range wanted {
		if p.published[id] == nil {
			missing = true
			fresh = fresh || !p.absent[id]
		}
	}
	if !fresh && (!missing || p.now().Before(p.listed.Add(askAgain))) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askAtMost)
	defer cancel()
	p.listed = p.now()
	list, err := p.client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(resourceapi.ResourceSliceSelectorNodeName, p.node).String(), ResourceVersion: "0",
	})
	if err != nil {
		klog.FromContext(ctx).Info("slices not read", "node", p.node, "reason", err.Error())
		return
	}
	published := expect.PublishedIn(list.Items)
	for id := range wanted {
		if attributes := published[id]; attributes != nil {
			p.published[id] = attributes
			delete(p.absent, id)
		} else if p.published[id] == nil {
			p.absent[id] = true
		}
	}
}

// claimUIDs are the claims of a pod, by name.
func (p *promises) claimUIDs(pod expect.Pod) map[string]types.UID {
	uids := map[string]types.UID{}
	if known := p.claims[types.UID(pod.UID)]; known != nil {
		for name, c := range known.byName {
			uids[name] = c.UID
		}
	}
	return uids
}
