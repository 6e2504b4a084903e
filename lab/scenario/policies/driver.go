// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

const (
	// driverComponent is on the DaemonSets of nicDriver.images, and their pods.
	driverComponent = "app.kubernetes.io/component=nic-driver"
	// vendorLabel is on nodes with NICs that the driver is for: the guest's stand-ins are
	// of another vendor, and the operator sets only the kernel's label.
	vendorLabel = "feature.node.kubernetes.io/pci-15b3.present"
	// holding is the namespace, the pod and the claim of who holds a NIC.
	holding = "plumblab-holding"
	// wayOut is the module of the node's way out, and how preflight names that.
	wayOut, wayOutSays = "virtio_pci", "default route"
	// heldModule drives the guest's NICs that pods hold.
	heldModule = "e1000e"
)

const (
	// withDriver is for the kernel and the image, and what is to be replaced.
	withDriver = `nicDriver: {module: %s, images: [{kernel: %q, image: %q}]}`
	// noDriver is as the chart has it.
	noDriver = `nicDriver: {module: mlx5_core, images: []}`
	// driverState is what the driver brings: the modules that need nobody else, and the
	// file by which such images say that they are done.
	driverState = `for m in "$1" mlxfw psample; do test -e /sys/module/$m && echo "$m"; done
test -e /run/mellanox/drivers/.driver-ready && echo ready; true`
	// wayOutState changes when the link is made anew.
	wayOutState = `echo $(cat /sys/class/net/mgmt0/ifindex /sys/class/net/mgmt0/operstate)`
)

// nicDriver has a container load a driver, refused where the node or a pod would lose
// something.
func (r *run) nicDriver(ctx context.Context) error {
	before, err := r.driverState(ctx)
	if err != nil {
		return err
	}
	r.report.Finding(before == "", "a driver of NICs", "is not there: %q", before)
	if _, err := r.Kubectl.Run(ctx, "label", "node", r.Node, vendorLabel+"=true"); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{r.loads, r.endsByItself, r.refusedForWayOut, r.refusedForPod, r.unloads} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// loads has the chart's container load the driver.
func (r *run) loads(ctx context.Context) error {
	if err := r.configure(ctx, r.DriverModule); err != nil {
		return err
	}
	return r.loaded(ctx, "nicDriver.images")
}

// loaded waits until a container has loaded the driver.
func (r *run) loaded(ctx context.Context, what string) error {
	want := r.DriverModule + " mlxfw psample ready"
	err := r.awaitDriver(ctx, want, func(p *corev1.Pod) bool { return p != nil && harness.IsReady(p) })
	r.report.Finding(err == nil, what, "the pod is Ready, and the node has %s", want)
	return err
}

// endsByItself has the driver's container end while its pod stays: nothing starts it again
// unseen, and the next pod looks first.
func (r *run) endsByItself(ctx context.Context) error {
	ran, err := r.driverPod(ctx)
	if err != nil {
		return err
	}
	if _, err := r.Kubectl.Run(ctx, "exec", "--namespace", namespace, ran.Name, "--container", "driver", "--", "sh", "-c", "kill -TERM 1"); err != nil {
		return err
	}
	err = r.awaitDriver(ctx, r.DriverModule+" mlxfw psample ready", func(p *corev1.Pod) bool {
		return p != nil && p.UID != ran.UID && harness.IsReady(p)
	})
	r.report.Finding(err == nil, "its container ended", "another pod looked first, and loaded it again")
	return err
}

// refusedForWayOut has preflight refuse the module from which the node's way out hangs,
// and only then: an upgrade of the chart replaces no pod.
func (r *run) refusedForWayOut(ctx context.Context) error {
	link, err := r.Shell(ctx, wayOutState)
	if err != nil {
		return err
	}
	runs, err := r.driverPod(ctx)
	if err != nil {
		return err
	}
	if err := r.configure(ctx, wayOut); err != nil {
		return err
	}
	still, err := r.driverPod(ctx)
	if err != nil {
		return err
	}
	r.report.Finding(runs != nil && still != nil && runs.UID == still.UID, "an upgrade", "leaves the pod that runs")
	if err := r.refused(ctx, "module "+wayOut, "mgmt0", wayOutSays); err != nil {
		return err
	}
	after, err := r.Shell(ctx, wayOutState)
	r.report.Finding(after == link, "the node's way out", "is the link it was: %s", strings.TrimSpace(after))
	return err
}

// refusedForPod has a pod hold a NIC. The module that drives it is refused until the pod has
// gone, and another's is loaded beside the pod.
func (r *run) refusedForPod(ctx context.Context) error {
	if err := r.hold(ctx); err != nil {
		return err
	}
	if err := r.configure(ctx, r.DriverModule); err != nil {
		return err
	}
	if err := r.deleteDriverPod(ctx); err != nil {
		return err
	}
	if err := r.loaded(ctx, "beside a pod with another driver's NIC"); err != nil {
		return err
	}
	if err := r.configure(ctx, heldModule); err != nil {
		return err
	}
	if err := r.refused(ctx, "a NIC that a pod holds", holding); err != nil {
		return err
	}
	if err := harness.DeleteNamespace(ctx, r.Client, holding, patience); err != nil {
		return err
	}
	return r.loaded(ctx, "once that pod has gone")
}

// refused has the driver's pod replaced, and waits until preflight has said all of this,
// and the driver is gone.
func (r *run) refused(ctx context.Context, what string, words ...string) error {
	if err := r.deleteDriverPod(ctx); err != nil {
		return err
	}
	var said string
	err := r.awaitDriver(ctx, "", func(p *corev1.Pod) bool {
		said = preflightSaid(p)
		return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(said, word) })
	})
	r.report.Finding(err == nil, what, "the old pod took its driver along, and the next one loads none: %s", said)
	return err
}

// unloads has the value taken back.
func (r *run) unloads(ctx context.Context) error {
	if err := r.withoutDriver(ctx); err != nil {
		return err
	}
	err := r.awaitDriver(ctx, "", func(p *corev1.Pod) bool { return p == nil })
	r.report.Finding(err == nil, "without nicDriver.images", "DaemonSet, pod and modules are gone, as before")
	return err
}

// hold makes a pod with a NIC.
func (r *run) hold(ctx context.Context) error {
	if err := harness.CreateNamespace(ctx, r.Client, holding); err != nil {
		return err
	}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: holding}}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{harness.RequestNIC()}
	if _, err := r.Client.ResourceV1().ResourceClaims(holding).Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		return err
	}
	name := holding
	pod := r.Pod(holding, name, "sleep", "3600")
	harness.AddClaim(pod, corev1.PodResourceClaim{Name: "nic", ResourceClaimName: &name})
	if _, err := r.Client.CoreV1().Pods(holding).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	return harness.WaitForReady(ctx, r.Client, holding, name, poll, patience)
}

// configure has the chart bring the driver's container for the node's kernel.
func (r *run) configure(ctx context.Context, module string) error {
	node, err := r.Client.CoreV1().Nodes().Get(ctx, r.Node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return r.Configure(ctx, fmt.Appendf(nil, withDriver, module, node.Status.NodeInfo.KernelVersion, r.DriverImage))
}

// withoutDriver takes back all that the driver's part makes.
func (r *run) withoutDriver(ctx context.Context) error {
	if err := harness.DeleteNamespace(ctx, r.Client, holding, patience); err != nil {
		return err
	}
	if err := r.Configure(ctx, []byte(noDriver)); err != nil {
		return err
	}
	err := harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		sets, err := r.Client.AppsV1().DaemonSets(namespace).List(ctx, metav1.ListOptions{LabelSelector: driverComponent})
		if err != nil || len(sets.Items) > 0 {
			return false, err
		}
		pod, err := r.driverPod(ctx)
		return pod == nil, err
	})
	if err != nil {
		return fmt.Errorf("remove the driver's container: %w", err)
	}
	_, err = r.Kubectl.Run(ctx, "label", "node", r.Node, vendorLabel+"-")
	return err
}

// deleteDriverPod waits until the pod has gone: it unloads the driver.
func (r *run) deleteDriverPod(ctx context.Context) error {
	_, err := r.Kubectl.Run(ctx, "delete", "pod", "--namespace", namespace, "--selector", driverComponent, "--timeout", patience.String())
	return err
}

// driverPod is the driver's pod; nil for none.
func (r *run) driverPod(ctx context.Context) (*corev1.Pod, error) {
	pods, err := r.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: driverComponent})
	if err != nil || len(pods.Items) == 0 {
		return nil, err
	}
	return &pods.Items[0], nil
}

// awaitDriver waits until the driver's pod is as wanted, and what it brings to the node.
func (r *run) awaitDriver(ctx context.Context, want string, fits func(*corev1.Pod) bool) error {
	var now string
	var pod *corev1.Pod
	err := harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		var err error
		if pod, err = r.driverPod(ctx); err != nil || !fits(pod) {
			return false, err
		}
		now, err = r.driverState(ctx)
		return now == want, err
	})
	if errors.Is(err, harness.ErrTimeout) {
		whole, _ := r.Kubectl.Run(ctx, "describe", "pod", "--namespace", namespace, "--selector", driverComponent)
		return fmt.Errorf("node %s has %q, want %q: %w; %s", r.Node, now, want, err, whole)
	}
	return err
}

// driverState is what the driver brings to the node, in one line.
func (r *run) driverState(ctx context.Context) (string, error) {
	out, err := r.Shell(ctx, driverState, r.DriverModule)
	return strings.Join(strings.Fields(out), " "), err
}

// preflightSaid is how the pod's init container ended last.
func preflightSaid(p *corev1.Pod) string {
	if p == nil {
		return ""
	}
	for _, s := range p.Status.InitContainerStatuses {
		for _, ended := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
			if ended != nil {
				return strings.TrimSpace(ended.Message)
			}
		}
	}
	return ""
}
