// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/lab/scenario"
	"plumbline.dev/plumbline/lab/scenario/harness"
)

// Config is what a run needs of the cluster, whose NICs are DRANET's and whose agents only
// look.
type Config struct {
	harness.Cluster
	Plumbline scenario.Plumbline
	// NICs are those of the node.
	NICs []string
}

// verifyUnknown is what plumbline verify exits with where a verdict is not known.
const verifyUnknown = 4

const (
	patience = 2 * time.Minute
	poll     = 500 * time.Millisecond
)

// A namespace holds everything of a run: a pod with a NIC, and one that wants more NICs
// than there are. Claims are called as their pods.
const (
	namespace = "plumblab-observe"
	served    = "served"
	waiting   = "waiting"
	className = "plumblab-observe"
)

type run struct {
	Config
	report harness.Report
}

// Run goes through all of it, prints what it finds, and leaves nothing of its own.
func Run(ctx context.Context, c Config) error {
	r := &run{Config: c, report: harness.Report{Scenario: "observe", Out: c.Out}}
	return r.report.Verdict(harness.Run(ctx, patience, r.cleanUp, r.all))
}

func (r *run) cleanUp(ctx context.Context) error {
	class := r.Client.ResourceV1().DeviceClasses().DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{FieldSelector: "metadata.name=" + className})
	return errors.Join(class, harness.DeleteNamespace(ctx, r.Client, namespace, patience))
}

func (r *run) all(ctx context.Context) error {
	if err := r.pods(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{r.unknown, r.unallocated, r.readers} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// pods makes both pods, and waits for the one that can run.
func (r *run) pods(ctx context.Context) error {
	if err := harness.CreateNamespace(ctx, r.Client, namespace); err != nil {
		return err
	}
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: className}}
	class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf(
		`device.driver == %q && device.attributes[%q].ifName.startsWith("nic")`, slicecodec.DriverNet, slicecodec.DriverNet)}}}
	if _, err := r.Client.ResourceV1().DeviceClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return err
	}
	for name, nics := range map[string]int{served: 1, waiting: len(r.NICs) + 1} {
		if _, err := r.Client.ResourceV1().ResourceClaims(namespace).Create(ctx, claim(name, nics), metav1.CreateOptions{}); err != nil {
			return err
		}
		pod := r.Pod(namespace, name, "sh", "-c", "while :; do sleep 0.2; done")
		harness.AddClaim(pod, corev1.PodResourceClaim{Name: name, ResourceClaimName: ptr.To(name)})
		if _, err := r.Client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return harness.WaitForReady(ctx, r.Client, namespace, served, poll, patience)
}

func claim(name string, nics int) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
	c.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "nic", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: className, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(nics),
	}}}
	if nics == 1 {
		c.Spec.Devices.Config = []resourceapi.DeviceClaimConfiguration{{DeviceConfiguration: resourceapi.DeviceConfiguration{
			Opaque: &resourceapi.OpaqueDeviceConfiguration{
				Driver: slicecodec.DriverNet, Parameters: runtime.RawExtension{Raw: []byte(`{"interface": {"name": "net1"}}`)},
			},
		}}}
	}
	return c
}

// unknown waits for the verdict of what DRANET did. It takes what it published of a virtual
// link away while a pod has it, and what it then writes into the claim the API server refuses
// (v1.4.0): which interface it is nobody can say, and a verdict that guesses is wrong.
func (r *run) unknown(ctx context.Context) error {
	const why = "neither a slice nor the claim's status says which interface that is"
	var said scenario.Answer
	err := harness.WaitFor(ctx, poll, patience, func() (done bool, err error) {
		said, err = r.Plumbline.Run(ctx, "verify", "pod/"+served, "-n", namespace)
		return said.Says("as claimed", metav1.ConditionUnknown) && strings.Contains(said.Out, why), err
	})
	if err != nil && !errors.Is(err, harness.ErrTimeout) {
		return err
	}
	r.report.Finding(err == nil && said.Code == verifyUnknown, "verify says of a virtual NIC of DRANET's what is not known", "%s", said.Ending())
	if err != nil {
		fmt.Fprintln(r.Out, said.Out)
	}
	return nil
}

// event waits for one of a pod.
func (r *run) event(ctx context.Context, pod, reason string) error {
	message := "it has none"
	err := harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		list, err := r.Client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod})
		if err != nil {
			return false, err
		}
		i := slices.IndexFunc(list.Items, func(e corev1.Event) bool { return e.Reason == reason })
		if i >= 0 {
			message = list.Items[i].Message
		}
		return i >= 0, nil
	})
	if err != nil && !errors.Is(err, harness.ErrTimeout) {
		return err
	}
	r.report.Finding(err == nil, "pod "+pod+" has the event "+reason, "%s", message)
	return nil
}

// unallocated asks about the pod that waits.
func (r *run) unallocated(ctx context.Context) error {
	if err := r.says(ctx, 1, fmt.Sprintf("%d", len(r.NICs)+1), "explain", "pod/"+waiting, "-n", namespace); err != nil {
		return err
	}
	return r.event(ctx, waiting, "ClaimsCannotBeAllocated")
}

// readers asks what else reads a cluster.
func (r *run) readers(ctx context.Context) error {
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{0, r.NICs[0], []string{"topo", "--node", r.Node}},
		{0, r.Node, []string{"topo", "nodes"}},
		{0, "net1", []string{"claim", "render", "claim/" + served, "-n", namespace}},
		{0, "", []string{"claim", "lint", "claim/" + served, "class/" + className, "-n", namespace}},
		{1, "", []string{"claim", "simulate", "claim/" + waiting, "-n", namespace}},
		{verifyUnknown, served, []string{"verify", "--node", r.Node}},
	} {
		if err := r.says(ctx, c.code, c.says, c.args...); err != nil {
			return err
		}
	}
	return nil
}

// says runs a command, which must end with the code and say the word.
func (r *run) says(ctx context.Context, code int, word string, args ...string) error {
	said, err := r.Plumbline.Run(ctx, args...)
	if err != nil {
		return err
	}
	ok := said.Code == code && strings.Contains(said.Out, word)
	r.report.Finding(ok, "plumbline "+strings.Join(args, " "), "%s", said.Ending())
	if !ok {
		fmt.Fprintln(r.Out, said.Out)
	}
	return nil
}
