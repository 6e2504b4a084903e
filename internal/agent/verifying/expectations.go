// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verifying

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/verify/expect"
)

const (
	// askAtMost bounds one question to the API server.
	askAtMost = 10 * time.Second
	// askAgain is how soon the API server is asked again for what it did not have.
	askAgain = 30 * time.Second
)

// expectations knows what pods must have. A claim's allocation stays as it is
// while a pod has it, so that each claim is read once; slices are read anew when
// a device of a claim is in none that was read.
type expectations struct {
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

func newExpectations(client kubernetes.Interface, node string) *expectations {
	return &expectations{
		client: client, node: node, now: time.Now,
		claims: map[types.UID]*podClaims{}, published: expect.Published{}, absent: map[expect.ID]bool{},
	}
}

// forPods reads what the pods must have, those that end left out.
func (e *expectations) forPods(ctx context.Context, pods []*corev1.Pod) []expect.Pod {
	seen := map[types.UID]bool{}
	var live []*corev1.Pod
	for _, pod := range pods {
		seen[pod.UID] = true
		if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning {
			continue
		}
		live = append(live, pod)
		e.readClaims(ctx, pod)
	}
	maps.DeleteFunc(e.claims, func(uid types.UID, _ *podClaims) bool { return !seen[uid] })
	e.readSlices(ctx)
	out := make([]expect.Pod, 0, len(live))
	for _, pod := range live {
		out = append(out, expect.PodOf(pod, e.claims[pod.UID].byName, e.published))
	}
	return out
}

func (e *expectations) readClaims(ctx context.Context, pod *corev1.Pod) {
	known := e.claims[pod.UID]
	if known == nil {
		known = &podClaims{byName: map[string]*resourceapi.ResourceClaim{}}
		e.claims[pod.UID] = known
	}
	if e.now().Before(known.again) {
		return
	}
	for _, name := range expect.ClaimNames(pod) {
		if have := known.byName[name]; have != nil && complete(have) {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, askAtMost)
		claim, err := e.client.ResourceV1().ResourceClaims(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
		cancel()
		if err != nil || !complete(claim) {
			known.again = e.now().Add(askAgain)
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

// complete says whether a claim says all it ever will: of a network device the driver says
// whether the pod has its RDMA device, and of an interface that is no PCI function the
// name, once the pod has it.
func complete(c *resourceapi.ResourceClaim) bool {
	if c.Status.Allocation == nil {
		return false
	}
	for _, d := range expect.ClaimOf(c, nil).Devices {
		if d.Kind == expect.NIC && d.PCI == nil && d.Interface == "" {
			return false
		}
		if d.Kind == expect.NIC && d.Driver == slicecodec.DriverNet && !d.Admin && !hasEntry(c, d) {
			return false
		}
	}
	return true
}

// hasEntry says whether the driver has written what became of a device.
func hasEntry(c *resourceapi.ResourceClaim, d expect.Device) bool {
	return slices.ContainsFunc(c.Status.Devices, func(s resourceapi.AllocatedDeviceStatus) bool {
		return s.Driver == d.Driver && s.Pool == d.Pool && s.Device == d.Name
	})
}

// small keeps of a claim what an expectation is made of.
func small(c *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	s := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name, UID: c.UID}}
	s.Spec.Devices.Constraints = c.Spec.Devices.Constraints
	if c.Status.Allocation != nil {
		devices := c.Status.Allocation.Devices
		s.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: devices.Results, Config: devices.Config}}
	}
	for _, d := range c.Status.Devices {
		entry := resourceapi.AllocatedDeviceStatus{Driver: d.Driver, Pool: d.Pool, Device: d.Device, ShareID: d.ShareID}
		for _, condition := range d.Conditions {
			entry.Conditions = append(entry.Conditions, metav1.Condition{Type: condition.Type, Status: condition.Status})
		}
		if d.NetworkData != nil {
			entry.NetworkData = &resourceapi.NetworkDeviceData{
				InterfaceName: d.NetworkData.InterfaceName, HardwareAddress: d.NetworkData.HardwareAddress, IPs: d.NetworkData.IPs,
			}
		}
		s.Status.Devices = append(s.Status.Devices, entry)
	}
	return s
}

// wanted are the devices that claims hold.
func (e *expectations) wanted() map[expect.ID]bool {
	wanted := map[expect.ID]bool{}
	for _, claims := range e.claims {
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
func (e *expectations) readSlices(ctx context.Context) {
	wanted := e.wanted()
	maps.DeleteFunc(e.published, func(id expect.ID, _ map[resourceapi.QualifiedName]resourceapi.DeviceAttribute) bool {
		return !wanted[id]
	})
	maps.DeleteFunc(e.absent, func(id expect.ID, _ bool) bool { return !wanted[id] })
	fresh, missing := false, false
	for id := range wanted {
		if e.published[id] == nil {
			missing = true
			fresh = fresh || !e.absent[id]
		}
	}
	if !fresh && (!missing || e.now().Before(e.listed.Add(askAgain))) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askAtMost)
	defer cancel()
	e.listed = e.now()
	list, err := e.client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(resourceapi.ResourceSliceSelectorNodeName, e.node).String(), ResourceVersion: "0",
	})
	if err != nil {
		klog.FromContext(ctx).Info("slices not read", "node", e.node, "reason", err.Error())
		return
	}
	published := expect.PublishedIn(list.Items)
	for id := range wanted {
		if attributes := published[id]; attributes != nil {
			e.published[id] = attributes
			delete(e.absent, id)
		} else if e.published[id] == nil {
			e.absent[id] = true
		}
	}
}

// claimUIDs are the claims of a pod, by name.
func (e *expectations) claimUIDs(pod expect.Pod) map[string]types.UID {
	uids := map[string]types.UID{}
	if known := e.claims[types.UID(pod.UID)]; known != nil {
		for name, c := range known.byName {
			uids[name] = c.UID
		}
	}
	return uids
}
