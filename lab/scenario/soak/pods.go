// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// namespace holds everything of a run.
const namespace = "plumblab-soak"

// className is the shipped class of dra.net's NICs (deploy/deviceclasses.yaml).
const className = "dra.net"

const (
	templateName = "one-nic"
	claimName    = "nic"
)

// pod is one cycle's pod.
type pod struct {
	cycle     Cycle
	name, uid string
}

// nic is one of the node's NICs: place is its PCI address, or its name again where
// it is no PCI function.
type nic struct{ place, name string }

// nics are those that the node has to give.
func (s State) nics() []nic {
	var list []nic
	for _, line := range s.Lines {
		if fields := strings.Fields(line); fields[0] == "nic" && len(fields) > 2 {
			list = append(list, nic{place: fields[1], name: fields[2]})
		}
	}
	return list
}

// mark is what the lines of state about this NIC have.
func (n nic) mark() string { return "nic " + n.place + " " }

// template is the name of the template of claims for this NIC and no other.
func (n nic) template() string { return templateName + "-" + n.name }

// setUp makes the namespace and the template of claims for any NIC.
func (r *run) setUp(ctx context.Context) error {
	_, err := r.config.Client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return r.makeTemplate(ctx, templateName, nil)
}

// pin makes the template of claims for one NIC.
func (r *run) pin(ctx context.Context, n nic) error {
	return r.makeTemplate(ctx, n.template(), []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
		Expression: fmt.Sprintf(`"ifName" in device.attributes["dra.net"] && device.attributes["dra.net"].ifName == %q`, n.name),
	}}})
}

func (r *run) makeTemplate(ctx context.Context, name string, selectors []resourceapi.DeviceSelector) error {
	template := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}}
	template.Spec.Spec.Devices = resourceapi.DeviceClaim{
		Requests: []resourceapi.DeviceRequest{{
			Name: "nic", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: className, Selectors: selectors},
		}},
		Config: []resourceapi.DeviceClaimConfiguration{{DeviceConfiguration: resourceapi.DeviceConfiguration{
			Opaque: &resourceapi.OpaqueDeviceConfiguration{
				Driver:     "dra.net",
				Parameters: runtime.RawExtension{Raw: []byte(`{"interface": {"name": "net1", "mtu": 1400}}`)},
			},
		}}},
	}
	_, err := r.config.Client.ResourceV1().ResourceClaimTemplates(namespace).Create(ctx, template, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// create makes a cycle's pod with a claim from a template.
func (r *run) create(ctx context.Context, c Cycle, template string) (*pod, error) {
	made, err := r.config.Client.CoreV1().Pods(namespace).Create(ctx, manifest(c, r.config, template), metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create the pod of %s: %w", c, err)
	}
	p := &pod{cycle: c, name: made.Name, uid: string(made.UID)}
	r.watch.add(p.uid, c)
	return p, nil
}

func podName(c Cycle) string { return fmt.Sprintf("cycle-%d", c.Number) }

func manifest(c Cycle, config Config, template string) *corev1.Pod {
	container := corev1.Container{
		Name: "main", Image: config.Image, ImagePullPolicy: corev1.PullIfNotPresent,
		Command: []string{"tail", "-f", "/dev/null"},
	}
	if c.Named {
		container.Resources.Claims = []corev1.ResourceClaim{{Name: claimName}}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: podName(c), Namespace: namespace},
		Spec: corev1.PodSpec{
			NodeSelector:                  map[string]string{corev1.LabelHostname: config.Node.Name},
			TerminationGracePeriodSeconds: ptr.To[int64](1),
			AutomountServiceAccountToken:  ptr.To(false),
			RestartPolicy:                 config.RestartPolicy,
			DNSPolicy:                     corev1.DNSDefault, // the lab has no cluster DNS
			Containers:                    []corev1.Container{container},
			ResourceClaims: []corev1.PodResourceClaim{{
				Name: claimName, ResourceClaimTemplateName: &template,
			}},
		},
	}
}

// delete asks for the end of a pod; a grace of 0 waits for no node.
func (r *run) delete(ctx context.Context, name string, grace int64) error {
	err := r.config.Client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &grace})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// left counts the run's pods and claims that are still there.
func (r *run) left(ctx context.Context) (int, error) {
	pods, err := r.config.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	claims, err := r.config.Client.ResourceV1().ResourceClaims(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	return len(pods.Items) + len(claims.Items), nil
}

// claims are those made for a pod.
func (r *run) claims(ctx context.Context, p *pod) ([]resourceapi.ResourceClaim, error) {
	claims, err := r.config.Client.ResourceV1().ResourceClaims(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(claims.Items, func(c resourceapi.ResourceClaim) bool {
		owner := metav1.GetControllerOf(&c)
		return owner == nil || string(owner.UID) != p.uid
	}), nil
}

// gone says whether a pod and its claim are.
func (r *run) gone(ctx context.Context, p *pod) (bool, error) {
	_, err := r.config.Client.CoreV1().Pods(namespace).Get(ctx, p.name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return false, err
	}
	claims, err := r.claims(ctx, p)
	return len(claims) == 0, err
}

// failed is what isReady says of a pod that will never run.
const failed = string(corev1.PodFailed)

// isReady says whether the pod is Ready, and if not what is known.
func (r *run) isReady(ctx context.Context, name string) (bool, string, error) {
	p, err := r.config.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false, "", err
	}
	if p.Status.Phase == corev1.PodFailed {
		return false, failed, nil
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue, string(p.Status.Phase) + " " + c.Message, nil
		}
	}
	return false, string(p.Status.Phase), nil
}
