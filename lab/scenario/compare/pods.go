// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/lab/scenario/harness"
)

// namespace holds everything of a run; className is of NICs that are the node's
// stand-ins, whichever driver publishes them.
const (
	namespace = "plumblab-compare"
	className = "plumblab-compare"
	podName   = "one"
)

// Life is how long one pod's beginning and end took.
type Life struct {
	// Ready is from the pod's creation to its condition Ready.
	Ready time.Duration
	// Back is from its deletion until the last NIC is on the host under its name.
	Back time.Duration
}

// setUp makes what all pods need.
func (r *run) setUp(ctx context.Context) error {
	if err := harness.CreateNamespace(ctx, r.Client, namespace); err != nil {
		return err
	}
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: className}}
	class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf(
		`device.driver == %q && device.attributes[%q].ifName.startsWith("nic")`, slicecodec.DriverNet, slicecodec.DriverNet)}}}
	_, err := r.Client.ResourceV1().DeviceClasses().Create(ctx, class, metav1.CreateOptions{})
	return err
}

// cleanUp removes what a run makes.
func (r *run) cleanUp(ctx context.Context) error {
	err := r.Client.ResourceV1().DeviceClasses().Delete(ctx, className, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return errors.Join(err, harness.DeleteNamespace(ctx, r.Client, namespace, patience))
}

// live takes one pod with as many NICs through its life. The host's NICs have their
// addresses before, which not every driver gives back.
func (r *run) live(ctx context.Context, nics int) (l Life, err error) {
	if out, err := r.Shell(ctx, r.Reset); err != nil {
		return l, fmt.Errorf("give the NICs their addresses: %w: %s", err, out)
	}
	if nics > 0 {
		if _, err := r.Client.ResourceV1().ResourceClaims(namespace).Create(ctx, claim(nics), metav1.CreateOptions{}); err != nil {
			return l, err
		}
	}
	if err := harness.Sleep(ctx, rest); err != nil {
		return l, err
	}
	if l.Ready, err = r.start(ctx, nics); err != nil {
		return l, err
	}
	if err := r.holds(nics); err != nil {
		return l, err
	}
	if err := harness.Sleep(ctx, rest); err != nil {
		return l, err
	}
	l.Back, err = r.stop(ctx, nics)
	return l, err
}

// start creates the pod and waits, by a watch that is there before.
func (r *run) start(ctx context.Context, nics int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pods := r.Client.CoreV1().Pods(namespace)
	seen, err := pods.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	defer seen.Stop()
	created := time.Now()
	if _, err := pods.Create(ctx, r.pod(nics), metav1.CreateOptions{}); err != nil {
		return 0, err
	}
	for event := range seen.ResultChan() {
		if p, ok := event.Object.(*corev1.Pod); ok && harness.IsReady(p) {
			return time.Since(created), nil
		}
	}
	return 0, fmt.Errorf("pod with %d NICs: not Ready: %w", nics, context.Cause(ctx))
}

// holds makes sure that the pod has what it is measured with.
func (r *run) holds(nics int) error {
	links, err := r.Links()
	if err != nil {
		return err
	}
	if away := r.away(links); away != nics {
		return fmt.Errorf("a pod with %d NICs is Ready, and %d have left the host", nics, away)
	}
	return nil
}

// away counts the NICs that are not among the host's links.
func (r *run) away(links []string) int {
	n := 0
	for _, nic := range r.NICs {
		if !slices.Contains(links, nic) {
			n++
		}
	}
	return n
}

// stop deletes the pod, waits for its NICs and then for the rest of it.
func (r *run) stop(ctx context.Context, nics int) (back time.Duration, err error) {
	pods := r.Client.CoreV1().Pods(namespace)
	deleted := time.Now()
	if err := pods.Delete(ctx, podName, metav1.DeleteOptions{}); err != nil {
		return 0, err
	}
	err = harness.WaitFor(ctx, 2*time.Millisecond, patience, func() (bool, error) {
		links, err := r.Links()
		return err == nil && r.away(links) == 0, err
	})
	if err != nil {
		return 0, fmt.Errorf("wait for %d NICs on the host: %w", nics, err)
	}
	back = time.Since(deleted)
	claims := r.Client.ResourceV1().ResourceClaims(namespace)
	err = harness.WaitFor(ctx, 50*time.Millisecond, patience, func() (bool, error) {
		gone, err := harness.PodGone(ctx, r.Client, namespace, podName)
		if !gone || nics == 0 {
			return gone, err
		}
		err = claims.Delete(ctx, podName, metav1.DeleteOptions{})
		return apierrors.IsNotFound(err), ignoreNotFound(err)
	})
	if err != nil {
		return 0, fmt.Errorf("wait for the end of a pod with %d NICs: %w", nics, err)
	}
	return back, nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// claim asks for the NICs in one request.
func claim(nics int) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: podName}}
	c.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "nics", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: className, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(nics),
	}}}
	return c
}

// untilTerminated ends at once on SIGTERM.
const untilTerminated = "trap 'exit 0' TERM; while :; do sleep 1000 & wait; done"

func (r *run) pod(nics int) *corev1.Pod {
	p := r.Pod(namespace, podName, "sh", "-c", untilTerminated)
	p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](5)
	if nics > 0 {
		harness.AddClaim(p, corev1.PodResourceClaim{Name: "nics", ResourceClaimName: ptr.To(podName)})
	}
	return p
}
