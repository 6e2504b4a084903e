// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package shares

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/lab/scenario"
	"plumbline.dev/plumbline/lab/scenario/harness"
)

const (
	patience = 2 * time.Minute
	poll     = 200 * time.Millisecond
)

// namespace has the scenario's pods, and agents are in the other one.
const (
	namespace = "plumblab-shares"
	plumbline = "plumbline-system"
)

// The pods of pods.yaml, and where the second one is reached.
const (
	first, second = "a", "b"
	address       = "192.168.111.2"
)

// policyName is the name of policy, and documentedNIC the link that it shares.
const (
	policyName    = "shared-storage"
	documentedNIC = "ens2f0"
)

//go:embed policy.yaml
var policy string

//go:embed pods.yaml
var manifests string

// Config is what a run is to know.
type Config struct {
	harness.Cluster

	Kubectl scenario.Kubectl
	// Plumbline is asked whether pods have what they claimed.
	Plumbline scenario.Plumbline
}

type run struct {
	Config
	report harness.Report
	// device is the shared NIC's, and link its interface.
	device, link string
}

// Run goes through all steps, prints what it finds, and leaves nothing of its own.
func Run(ctx context.Context, c Config) error {
	r := &run{Config: c, report: harness.Report{Scenario: "shares", Out: c.Out}}
	return r.report.Verdict(harness.Run(ctx, patience, r.cleanUp, r.steps))
}

func (r *run) cleanUp(ctx context.Context) error {
	if _, err := r.Kubectl.Run(ctx, "delete", "hostpolicy", "--ignore-not-found", policyName); err != nil {
		return err
	}
	return harness.DeleteNamespace(ctx, r.Client, namespace, patience)
}

func (r *run) steps(ctx context.Context) error {
	before, err := r.links(ctx)
	if err != nil {
		return err
	}
	if err := r.choose(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{r.offer, r.hold, r.full, r.withdraw, r.restart} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return r.end(ctx, before)
}

// links are the node's, and their addresses, as the kernel has them.
func (r *run) links(ctx context.Context) (string, error) {
	return r.Shell(ctx, `ip -o link show | sed 's/^[0-9]*: //; s/@if[0-9]*//; s/ state [A-Z]* / /; s/,LOWER_UP//; s/NO-CARRIER,//' | grep -v veth | sort; ip -o -4 address show | sed 's/^[0-9]*: //' | grep -v veth | sort`)
}

// choose finds a NIC that is offered whole.
func (r *run) choose(ctx context.Context) error {
	devices, err := r.devices(ctx)
	if err != nil {
		return err
	}
	for _, d := range devices {
		if name, told := d.Attributes["dra.net/ifName"]; told && name.StringValue != nil {
			r.device, r.link = d.Name, *name.StringValue
			return nil
		}
	}
	return fmt.Errorf("node %s offers no NIC with an interface", r.Node)
}

func (r *run) devices(ctx context.Context) ([]resourceapi.Device, error) {
	list, err := r.Client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{
		FieldSelector: "spec.nodeName=" + r.Node + ",spec.driver=" + slicecodec.DriverNet,
	})
	if err != nil {
		return nil, err
	}
	var devices []resourceapi.Device
	for _, s := range list.Items {
		devices = append(devices, s.Spec.Devices...)
	}
	return devices, nil
}

// awaitDevice waits until the NIC is published so.
func (r *run) awaitDevice(ctx context.Context, what string, good func(resourceapi.Device) bool) error {
	var last resourceapi.Device
	err := harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		devices, err := r.devices(ctx)
		for _, d := range devices {
			if d.Name == r.device {
				last = d
				return good(d), err
			}
		}
		return false, err
	})
	if errors.Is(err, harness.ErrTimeout) {
		reports, _ := r.Kubectl.Run(ctx, "get", "hostreport", r.Node, "-o", "jsonpath={.report.policies}")
		return fmt.Errorf("%s: device %s of node %s is published as %s: %w; policies: %s", what, r.device, r.Node, published(last), err, reports)
	}
	return err
}

// slots are those of a NIC that is shared; 0 of one that is not.
func slots(d resourceapi.Device) int64 {
	shared := d.Attributes[slicecodec.AttrShared].BoolValue
	if d.AllowMultipleAllocations == nil || !*d.AllowMultipleAllocations || shared == nil || !*shared {
		return 0
	}
	value := d.Capacity[slicecodec.CapacitySlots].Value
	return value.Value()
}

func published(d resourceapi.Device) string {
	if n := slots(d); n > 0 {
		return fmt.Sprintf("shared, with %d slots", n)
	}
	return "one device"
}

func (r *run) offer(ctx context.Context) error {
	if _, err := r.Kubectl.RunWithInput(ctx, strings.Replace(policy, documentedNIC, r.link, 1), "apply", "-f", "-"); err != nil {
		return err
	}
	began := time.Now()
	if err := r.awaitDevice(ctx, "a HostPolicy shares "+r.link, func(d resourceapi.Device) bool { return slots(d) == 2 }); err != nil {
		return err
	}
	r.report.Finding(true, "a HostPolicy shares "+r.link, "published with 2 slots after %.1fs", time.Since(began).Seconds())
	return nil
}

// hold has two pods with a share each, which reach each other by it.
func (r *run) hold(ctx context.Context) error {
	if err := harness.CreateNamespace(ctx, r.Client, namespace); err != nil {
		return err
	}
	if _, err := r.Kubectl.RunWithInput(ctx, manifests, "apply", "-n", namespace, "-f", "-"); err != nil {
		return err
	}
	for _, pod := range []string{first, second} {
		if err := harness.WaitForReady(ctx, r.Client, namespace, pod, poll, patience); err != nil {
			return err
		}
		out, err := r.Kubectl.Shell(ctx, namespace, pod, "ip -o addr show dev net1")
		r.report.Finding(err == nil && strings.Contains(out, "192.168.111."), "pod "+pod, "%s", strings.Join(strings.Fields(out), " "))
	}
	r.reaches(ctx, "a reaches b by net1")
	for _, pod := range []string{first, second} {
		if err := r.verified(ctx, pod); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) reaches(ctx context.Context, what string) {
	out, err := r.Kubectl.Shell(ctx, namespace, first, "ping -c 3 -W 5 -I net1 "+address)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	r.report.Finding(err == nil, what, "%s", strings.Join(lines[max(0, len(lines)-2):], "; "))
}

// verified waits until plumbline verify says that a pod has what it claimed.
func (r *run) verified(ctx context.Context, pod string) error {
	var answer scenario.Answer
	err := harness.WaitFor(ctx, time.Second, patience, func() (bool, error) {
		var err error
		answer, err = r.Plumbline.Run(ctx, "verify", "pod/"+pod, "-n", namespace)
		return answer.Code == 0, err
	})
	switch {
	case errors.Is(err, harness.ErrTimeout):
		r.report.Finding(false, "plumbline verify "+pod, "%s\n%s", answer.Ending(), answer.Out)
		return nil
	case err != nil:
		return err
	}
	r.report.Finding(true, "plumbline verify "+pod, "as claimed")
	return nil
}

// full has one pod more than the offer has slots.
func (r *run) full(ctx context.Context) error {
	if _, err := r.Client.CoreV1().Pods(namespace).Create(ctx, r.third(), metav1.CreateOptions{}); err != nil {
		return err
	}
	var message string
	err := harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		p, err := r.Client.CoreV1().Pods(namespace).Get(ctx, "c", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				message = c.Message
			}
		}
		return strings.Contains(message, "cannot allocate"), nil
	})
	r.report.Finding(err == nil, "a third pod waits", "%s", message)
	return harness.DeletePod(ctx, r.Client, namespace, "c", 0)
}

func (r *run) third() *corev1.Pod {
	template := "storage-b"
	pod := r.Pod(namespace, "c", "sh", "-c", "while :; do sleep 0.2; done")
	harness.AddClaim(pod, corev1.PodResourceClaim{Name: "storage", ResourceClaimTemplateName: &template})
	return pod
}

// withdraw takes the offer away: the pods keep what they have.
func (r *run) withdraw(ctx context.Context) error {
	if err := r.endPod(ctx, second); err != nil {
		return err
	}
	if _, err := r.Kubectl.Run(ctx, "delete", "hostpolicy", policyName); err != nil {
		return err
	}
	err := r.awaitDevice(ctx, "the HostPolicy goes", func(d resourceapi.Device) bool { return slots(d) == 1 })
	if err != nil && !errors.Is(err, harness.ErrTimeout) {
		return err
	}
	r.report.Finding(err == nil, "the HostPolicy goes, and a holds a share", "no slots are left but that one")
	return nil
}

// restart ends the agent: the next one knows what is held.
func (r *run) restart(ctx context.Context) error {
	if _, err := r.Kubectl.Run(ctx, "delete", "pod", "--namespace", plumbline, "--selector", "app.kubernetes.io/component=agent"); err != nil {
		return err
	}
	if _, err := r.Kubectl.RunWithInput(ctx, strings.Replace(policy, documentedNIC, r.link, 1), "apply", "-f", "-"); err != nil {
		return err
	}
	if err := r.awaitDevice(ctx, "a new agent", func(d resourceapi.Device) bool { return slots(d) == 2 }); err != nil {
		return err
	}
	if _, err := r.Kubectl.RunWithInput(ctx, manifests, "apply", "-n", namespace, "-f", "-"); err != nil {
		return err
	}
	if err := harness.WaitForReady(ctx, r.Client, namespace, second, poll, patience); err != nil {
		return err
	}
	r.reaches(ctx, "after a restart of the agent, a reaches a new b")
	return nil
}

func (r *run) endPod(ctx context.Context, pod string) error {
	if err := harness.DeletePod(ctx, r.Client, namespace, pod, 1); err != nil {
		return err
	}
	return harness.WaitFor(ctx, poll, patience, func() (bool, error) { return harness.PodGone(ctx, r.Client, namespace, pod) })
}

// end has all of it gone.
func (r *run) end(ctx context.Context, before string) error {
	if err := r.cleanUp(ctx); err != nil {
		return err
	}
	err := r.awaitDevice(ctx, "without policy and pods", func(d resourceapi.Device) bool { return d.AllowMultipleAllocations == nil })
	if err != nil && !errors.Is(err, harness.ErrTimeout) {
		return err
	}
	var after string
	same := harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		var err error
		after, err = r.links(ctx)
		return after == before, err
	})
	r.report.Finding(err == nil && same == nil, "without policy and pods", "%s is offered whole, and the node's links are as before", r.link)
	return nil
}
