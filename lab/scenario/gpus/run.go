// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package gpus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/lab/node"
	"plumbline.dev/plumbline/lab/nvml"
	"plumbline.dev/plumbline/lab/scenario"
	"plumbline.dev/plumbline/lab/scenario/harness"
)

// patience is how long anything may take: the node's processors are emulated.
const (
	patience = 4 * time.Minute
	poll     = time.Second
)

// namespace has the scenario's pods, driverNamespace NVIDIA's driver.
const (
	namespace       = "plumblab-gpus"
	driverNamespace = "dra-driver-nvidia-gpu"
)

// driverLabel is on nodes that NVIDIA's chart looks for.
const driverLabel = "feature.node.kubernetes.io/pci-10de.present"

// The GPUs that are broken, by their addresses and the names that NVIDIA's driver gives.
const (
	illAddress, illDevice   = "0000:c4:00.0", "gpu-4"
	lostAddress, lostDevice = "0000:cc:00.0", "gpu-7"
)

// events is the file on the node in which a line befalls a GPU (lab/nvml).
const events = node.NVIDIADriverRoot + "/" + nvml.EventsPath

// Config is what a run is to know.
type Config struct {
	harness.Cluster

	Kubectl   scenario.Kubectl
	Plumbline scenario.Plumbline
	// Configure has NVIDIA's driver run with other feature gates, or those of before where
	// there are none, and share each GPU in so many parts, unless that is empty.
	Configure func(ctx context.Context, gates []string, shares string) error
	// DevicePlugin is the image of NVIDIA's device plugin.
	DevicePlugin string
}

type run struct {
	Config
	report harness.Report
}

// Run goes through all faults, prints what it finds, and leaves nothing of its own.
func Run(ctx context.Context, c Config) error {
	r := &run{Config: c, report: harness.Report{Scenario: "gpus", Out: c.Out}}
	return r.report.Verdict(harness.Run(ctx, patience, r.cleanUp, r.steps))
}

// cleanUp has the driver there as it was, with no event behind it, and no pod of ours: these
// go while it still knows their MIG devices.
func (r *run) cleanUp(ctx context.Context) error {
	if err := r.heal(ctx); err != nil {
		return err
	}
	if err := harness.DeleteNamespace(ctx, r.Client, namespace, patience); err != nil {
		return err
	}
	return r.Configure(ctx, nil, "")
}

func (r *run) steps(ctx context.Context) error {
	if err := harness.CreateNamespace(ctx, r.Client, namespace); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{r.hold, r.killed, r.ill, r.lost, r.withdrawn, r.shares, r.parts, r.plugged} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// holder is the pod that has its GPU through all that happens, which is none of those that are
// broken: NVIDIA's driver publishes them in any order.
const holder, heldAddress = "holder", "0000:8f:00.0"

func (r *run) hold(ctx context.Context) error {
	if err := r.create(ctx, holder, heldAddress); err != nil {
		return err
	}
	if err := r.awaitReady(ctx, holder); err != nil {
		return err
	}
	return r.stillHas(ctx, "a pod with a GPU")
}

// killDriver ends the driver at once. Another one is begun.
func (r *run) killDriver(ctx context.Context) error {
	pods := r.Client.CoreV1().Pods(driverNamespace)
	return pods.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}, metav1.ListOptions{})
}

// killed has the driver killed while a pod waits to be prepared.
func (r *run) killed(ctx context.Context) error {
	if err := r.killDriver(ctx); err != nil {
		return err
	}
	const pod = "prepared-late"
	if err := r.create(ctx, pod, ""); err != nil {
		return err
	}
	if err := r.awaitReady(ctx, pod); err != nil {
		return err
	}
	r.report.Finding(true, "the driver was killed", "a pod of that moment got its GPU when it was back")
	if err := r.stillHas(ctx, "who had a GPU before"); err != nil {
		return err
	}
	return r.remove(ctx, pod)
}

// ill has a GPU report an error that NVIDIA's driver taints it for.
func (r *run) ill(ctx context.Context) error {
	if err := r.befall(ctx, "xid "+illAddress+" 79"); err != nil {
		return err
	}
	if err := r.awaitTaint(ctx, illDevice, "gpu.nvidia.com/xid"); err != nil {
		return err
	}
	return r.explained(ctx, "wants-ill", illAddress, "gpu.nvidia.com/xid")
}

// lost has a GPU fall off the bus, and come back with the driver's next start.
func (r *run) lost(ctx context.Context) error {
	if err := r.befall(ctx, "lost "+lostAddress); err != nil {
		return err
	}
	if err := r.awaitTaint(ctx, lostDevice, "gpu.nvidia.com/gpu-lost"); err != nil {
		return err
	}
	if err := r.explained(ctx, "wants-lost", lostAddress, "gpu.nvidia.com/gpu-lost"); err != nil {
		return err
	}
	if err := r.heal(ctx); err != nil {
		return err
	}
	for _, pod := range []string{"wants-ill", "wants-lost"} {
		if err := r.awaitReady(ctx, pod); err != nil {
			return err
		}
		if err := r.remove(ctx, pod); err != nil {
			return err
		}
	}
	r.report.Finding(true, "the driver started again", "no taint is left, and who waited has a GPU")
	if err := r.stillHas(ctx, "who had a GPU before"); err != nil {
		return err
	}
	return r.removed(ctx)
}

// removed takes a GPU that nobody has off the bus, and finds it again.
func (r *run) removed(ctx context.Context) error {
	const function = "/sys/bus/pci/devices/" + lostAddress
	if _, err := r.Shell(ctx, "echo 1 >"+function+"/remove && [ ! -e "+function+" ]"); err != nil {
		return fmt.Errorf("remove %s: %w", lostAddress, err)
	}
	held := r.stillHas(ctx, "who has another GPU than the one that is off the bus")
	// Found again even if that is not so: other steps want all GPUs.
	if _, err := r.Shell(ctx, "echo 1 >/sys/bus/pci/rescan && [ -e "+function+" ]"); err != nil {
		return fmt.Errorf("find %s again: %w", lostAddress, err)
	}
	if held != nil {
		return held
	}
	r.report.Finding(true, "the GPU is back on the bus", "%s", lostAddress)
	return r.stillHas(ctx, "who has another GPU than the one that came back")
}

// withdrawn takes the driver from the node, and with it its slices, and brings it back
// under an agent that runs.
func (r *run) withdrawn(ctx context.Context) error {
	if err := r.label(ctx, driverLabel+"-"); err != nil {
		return err
	}
	if err := r.awaitSlices(ctx, false); err != nil {
		return err
	}
	const pod = "without-driver"
	if err := r.create(ctx, pod, ""); err != nil {
		return err
	}
	if err := r.says(ctx, pod, slicecodec.DriverGPU); err != nil {
		return err
	}
	if err := r.label(ctx, driverLabel+"=true"); err != nil {
		return err
	}
	if err := r.awaitReady(ctx, pod); err != nil {
		return err
	}
	r.report.Finding(true, "the driver came back", "who waited has a GPU")
	if err := r.remove(ctx, pod); err != nil {
		return err
	}
	return r.stillHas(ctx, "who had a GPU before")
}

// heal forgets what befell the GPUs, and starts the driver again: it takes no taint away by
// itself.
func (r *run) heal(ctx context.Context) error {
	if _, err := r.Shell(ctx, ": >"+events); err != nil {
		return err
	}
	if err := r.label(ctx, driverLabel+"=true"); err != nil {
		return err
	}
	pods := r.Client.CoreV1().Pods(driverNamespace)
	if err := pods.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return err
	}
	if err := r.awaitSlices(ctx, true); err != nil {
		return err
	}
	return r.awaitTaint(ctx, illDevice, "")
}

// befall writes an event of a GPU.
func (r *run) befall(ctx context.Context, event string) error {
	_, err := r.Shell(ctx, `echo "$1" >>`+events, event)
	return err
}

func (r *run) label(ctx context.Context, label string) error {
	_, err := r.Kubectl.Run(ctx, "label", "node", "--overwrite", r.Node, label)
	return err
}

// create makes a pod with a GPU, of an address unless that is empty, and the NIC below its
// root.
func (r *run) create(ctx context.Context, name, address string) error {
	gpu := resourceapi.ExactDeviceRequest{DeviceClassName: slicecodec.DriverGPU}
	if address != "" {
		gpu.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
			Expression: fmt.Sprintf(`device.attributes["resource.kubernetes.io"].pciBusID == %q`, address),
		}}}
	}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	claim.Spec.Devices = resourceapi.DeviceClaim{
		Requests: []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &gpu}, harness.RequestNIC()},
		Constraints: []resourceapi.DeviceConstraint{{
			Requests: []string{"gpu", "nic"}, MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(slicecodec.AttrPCIeRoot)),
		}},
	}
	if _, err := r.Client.ResourceV1().ResourceClaims(namespace).Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		return err
	}
	return r.createPod(ctx, name)
}

// createPod makes the pod of the claim of its name.
func (r *run) createPod(ctx context.Context, name string) error {
	pod := r.Pod(namespace, name, "sh", "-c", "trap exit TERM; tail -f /dev/null & wait")
	harness.AddClaim(pod, corev1.PodResourceClaim{Name: "devices", ResourceClaimName: &name})
	_, err := r.Client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// remove deletes a pod and its claim, which is gone when its devices are free.
func (r *run) remove(ctx context.Context, name string) error {
	if err := harness.DeletePod(ctx, r.Client, namespace, name, 1); err != nil {
		return err
	}
	claims := r.Client.ResourceV1().ResourceClaims(namespace)
	if err := claims.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	err := harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		_, err := claims.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), ignoreNotFound(err)
	})
	if err != nil {
		return fmt.Errorf("claim %s stays: %w", name, err)
	}
	return nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (r *run) awaitReady(ctx context.Context, pod string) error {
	return harness.WaitForReady(ctx, r.Client, namespace, pod, poll, patience)
}

// stillHas asks plumbline verify whether the holder is as it claims.
func (r *run) stillHas(ctx context.Context, who string) error { return r.asClaimed(ctx, holder, who) }

func (r *run) asClaimed(ctx context.Context, pod, who string) error {
	answer, err := r.Plumbline.Verify(ctx, namespace, pod)
	r.report.Finding(err == nil && answer.Code == 0, who, "as claimed, says plumbline verify (%s)", answer.Ending())
	if answer.Code != 0 {
		fmt.Fprint(r.Out, answer.Out)
	}
	return err
}

// explained wants a pod that asks for a GPU of this address to wait, and to be told why.
func (r *run) explained(ctx context.Context, pod, address, word string) error {
	if err := r.create(ctx, pod, address); err != nil {
		return err
	}
	return r.says(ctx, pod, word)
}

// says waits until plumbline explain names a word about a pod that is not scheduled.
func (r *run) says(ctx context.Context, pod, word string) error {
	var answer scenario.Answer
	err := harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		var err error
		answer, err = r.Plumbline.Run(ctx, "explain", "pod/"+pod, "-n", namespace)
		return strings.Contains(answer.Out, word), err
	})
	if errors.Is(err, harness.ErrTimeout) {
		r.report.Finding(false, pod, "plumbline explain does not name %s (%s): %s", word, answer.Ending(), answer.Out)
		return nil
	}
	if err != nil {
		return err
	}
	for line := range strings.Lines(answer.Out) {
		if strings.Contains(line, word) {
			r.report.Finding(true, pod+" waits", "%s", strings.TrimSpace(line))
			return nil
		}
	}
	return nil
}

// examined wants words in what plumbline doctor says.
func (r *run) examined(ctx context.Context, of []string, words string) error {
	answer, err := r.Plumbline.Run(ctx, append([]string{"doctor", "--all"}, of...)...)
	if err != nil {
		return err
	}
	who := "plumbline doctor " + strings.Join(of, " ")
	if !strings.Contains(answer.Out, words) {
		r.report.Finding(false, who, "does not say %q (%s):\n%s", words, answer.Ending(), answer.Out)
		return nil
	}
	r.report.Finding(true, who, "says of GPUs: %s", words)
	return nil
}

// devices are what NVIDIA's driver publishes of the node.
func (r *run) devices(ctx context.Context) ([]resourceapi.Device, error) {
	list, err := r.Client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{
		FieldSelector: "spec.nodeName=" + r.Node + ",spec.driver=" + slicecodec.DriverGPU,
	})
	if err != nil {
		return nil, err
	}
	var all []resourceapi.Device
	for _, s := range list.Items {
		all = append(all, s.Spec.Devices...)
	}
	return all, nil
}

// awaitSlices waits until the driver publishes devices, or none.
func (r *run) awaitSlices(ctx context.Context, there bool) error {
	err := harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		all, err := r.devices(ctx)
		return (len(all) > 0) == there, err
	})
	if err != nil {
		return fmt.Errorf("wait for slices of %s, there: %t: %w", slicecodec.DriverGPU, there, err)
	}
	return nil
}

// awaitTaint waits until a device has a taint, or none where the key is empty.
func (r *run) awaitTaint(ctx context.Context, device, key string) error {
	var last []resourceapi.DeviceTaint
	err := harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		all, err := r.devices(ctx)
		i := slices.IndexFunc(all, func(d resourceapi.Device) bool { return d.Name == device })
		if err != nil || i < 0 {
			return false, err
		}
		last = all[i].Taints
		if key == "" {
			return len(last) == 0, nil
		}
		return slices.ContainsFunc(last, func(t resourceapi.DeviceTaint) bool { return t.Key == key }), nil
	})
	if err != nil {
		return fmt.Errorf("wait for taint %q of %s, which has %v: %w", key, device, last, err)
	}
	return nil
}
