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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

// namespace holds everything of a run.
const namespace = "plumblab-soak"

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
	if err := harness.CreateNamespace(ctx, r.config.Client, namespace); err != nil {
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
	nic := harness.RequestNIC()
	nic.Exactly.Selectors = selectors
	return harness.CreateTemplate(ctx, r.config.Client, namespace, name, resourceapi.DeviceClaim{
		Requests: []resourceapi.DeviceRequest{nic},
		Config: []resourceapi.DeviceClaimConfiguration{{DeviceConfiguration: resourceapi.DeviceConfiguration{
			Opaque: &resourceapi.OpaqueDeviceConfiguration{
				Driver:     "dra.net",
				Parameters: runtime.RawExtension{Raw: []byte(`{"interface": {"name": "net1", "mtu": 1400}}`)},
			},
		}}},
	})
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
	p := config.Cluster().Pod(namespace, podName(c), "tail", "-f", "/dev/null")
	p.Spec.RestartPolicy = config.RestartPolicy
	harness.AddClaim(p, corev1.PodResourceClaim{Name: claimName, ResourceClaimTemplateName: &template})
	if !c.Named {
		p.Spec.Containers[0].Resources.Claims = nil
	}
	return p
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
	if gone, err := harness.PodGone(ctx, r.config.Client, namespace, p.name); !gone {
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
