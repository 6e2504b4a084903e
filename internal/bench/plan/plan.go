// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Variable is what the arms of a measurement differ in.
type Variable string

// Variables.
const (
	CPUs Variable = "CPUs"
	NIC  Variable = "NIC"
	GPU  Variable = "GPU"
)

// variables are all of them, in the order in which differences are told.
var variables = []Variable{GPU, NIC, CPUs}

// ErrOptions is of options that no plan can be made of.
var ErrOptions = errors.New("cannot be measured")

// Label has the run's name as its value, on every object of a run.
const Label = "plumbline.dev/bench"

// Container is the one of each pod in which the tool is.
const Container = "tool"

// Plan is one measurement.
type Plan struct {
	// Kind is the measurement's name on the command line.
	Kind     string
	Variable Variable
	Tool     Tool
	A, B     Arm
	// Keeper owns the other objects.
	Keeper *batchv1.Job
	// Server is empty where one pod measures alone.
	Server Side
	Client Side
}

// Arm is one of the two cases.
type Arm struct {
	// Name is what people call it.
	Name string
	// Request is of the claims; empty where the arm takes the pods' own network.
	Request string
	// Interface is what the arm's NIC is called in the pods.
	Interface string
	// CPUs is the request to whose CPUs the tool is bound; empty where arms do not differ in it.
	CPUs string
}

// has says whether a request is of the arm.
func (a Arm) has(request string) bool { return request == a.Request || request == a.CPUs }

// Side is one end: a pod, and the claim that it has.
type Side struct {
	// Role is server or client.
	Role  string
	Pod   *corev1.Pod
	Claim *resourceapi.ResourceClaim
}

// Sides are both ends, or the one that there is.
func (p *Plan) Sides() []Side {
	if p.Server.Pod == nil {
		return []Side{p.Client}
	}
	return []Side{p.Server, p.Client}
}

// Arms are both cases.
func (p *Plan) Arms() []Arm { return []Arm{p.A, p.B} }

// Objects are all that is made, in the order of making.
func (p *Plan) Objects() []any {
	all := []any{p.Keeper}
	for _, side := range p.Sides() {
		all = append(all, side.Claim)
	}
	for _, side := range p.Sides() {
		all = append(all, side.Pod)
	}
	return all
}

// Own has the keeper, whose id the API server has given it, own every other object.
func (p *Plan) Own(keeper types.UID) {
	owner := metav1.OwnerReference{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Name: p.Keeper.Name, UID: keeper}
	for _, side := range p.Sides() {
		side.Pod.OwnerReferences = []metav1.OwnerReference{owner}
		side.Claim.OwnerReferences = []metav1.OwnerReference{owner}
	}
}

// Lease is how many seconds the keeper lives without a word from the command.
const Lease = 120

// keeperGate keeps the keeper's pod from ever being scheduled.
const keeperGate = Label + "-keeper"

// keeper is a Job that does nothing but end. Kubernetes ends it when its deadline is over,
// which the command puts off for as long as it lives, deletes it then, and collects what it
// owns. Its pod is gated, so that it takes nothing of any node.
func keeper(meta metav1.ObjectMeta, image string) *batchv1.Job {
	meta.Name = meta.Labels[Label]
	return &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: meta,
		Spec: batchv1.JobSpec{
			ActiveDeadlineSeconds:   ptr.To[int64](Lease),
			TTLSecondsAfterFinished: ptr.To[int32](0),
			BackoffLimit:            ptr.To[int32](0),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: meta.Labels},
				Spec: corev1.PodSpec{
					SchedulingGates:              []corev1.PodSchedulingGate{{Name: keeperGate}},
					RestartPolicy:                corev1.RestartPolicyNever,
					AutomountServiceAccountToken: ptr.To(false),
					Containers:                   []corev1.Container{{Name: "none", Image: image}},
				},
			},
		},
	}
}

// object is what all objects of a run have in common.
func object(namespace, run, role string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: fmt.Sprintf("%s-%s", run, role), Namespace: namespace, Labels: map[string]string{Label: run}}
}
