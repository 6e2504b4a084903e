// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Pod is what the kubelet does not tell a driver about a pod.
type Pod struct {
	UID       types.UID `json:"uid"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	// Claims are the names of the ResourceClaims the pod uses.
	Claims []string `json:"claims,omitempty"`
	// Named are the claims that at least one container names.
	Named map[string]bool `json:"named,omitempty"`
	// Containers are all of a pod with claims.
	Containers []Container `json:"containers,omitempty"`
	// Ended: its containers have ended and none will start again.
	Ended bool `json:"ended,omitempty"`
}

// Pods answers questions about the pods of this node.
type Pods struct {
	indexer cache.Indexer
	// before answers until the API server has said which pods there are; nil where
	// nobody does.
	before func(types.UID) *Pod
}

// PodsByUID is the index that Pods asks.
const PodsByUID = "uid"

// PodsFrom answers from an indexer that has the index PodsByUID.
func PodsFrom(indexer cache.Indexer) Pods { return Pods{indexer: indexer} }

// WatchPods starts the one watch of this node's pods. It keeps them in file, and
// answers from there while the API server is away; an empty file is none.
func WatchPods(ctx context.Context, client kubernetes.Interface, node, file string) (Pods, error) {
	source := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", metav1.NamespaceAll,
		fields.OneTermEqualSelector("spec.nodeName", node))
	informer := cache.NewSharedIndexInformer(source, &corev1.Pod{}, 0, cache.Indexers{PodsByUID: IndexPodsByUID})
	if err := informer.SetTransform(stripPod); err != nil {
		return Pods{}, fmt.Errorf("watch pods: %w", err)
	}
	pods := PodsFrom(informer.GetIndexer())
	if file != "" {
		var err error
		if pods.before, err = keepIn(ctx, file, informer); err != nil {
			return Pods{}, fmt.Errorf("watch pods: %w", err)
		}
	}
	go informer.RunWithContext(ctx)
	return pods, nil
}

// IndexPodsByUID fills PodsByUID.
func IndexPodsByUID(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, nil
	}
	return []string{string(pod.UID)}, nil
}

// WithClaims lists the pods that have claims, in no order: of each what stripPod
// keeps. They are the cache's own, and read-only.
func (p Pods) WithClaims() []*corev1.Pod {
	if p.indexer == nil {
		return nil
	}
	var pods []*corev1.Pod
	for _, obj := range p.indexer.List() {
		if pod, ok := obj.(*corev1.Pod); ok && hasClaims(pod) {
			pods = append(pods, pod)
		}
	}
	return pods
}

func hasClaims(pod *corev1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || pod.Status.ExtendedResourceClaimStatus != nil
}

// stripPod keeps of a pod what Pod needs, and of one with claims what verifying
// it needs: the cache of a full node stays small.
func stripPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	small := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
	}}
	small.Spec.ResourceClaims = pod.Spec.ResourceClaims
	small.Spec.InitContainers = stripContainers(pod.Spec.InitContainers)
	small.Spec.Containers = stripContainers(pod.Spec.Containers)
	small.Status.ResourceClaimStatuses = pod.Status.ResourceClaimStatuses
	small.Status.Phase = pod.Status.Phase
	if hasClaims(pod) {
		keepRunning(small, pod)
	}
	return small, nil
}

// keepRunning keeps which containers run, and what they may reach.
func keepRunning(small, pod *corev1.Pod) {
	small.DeletionTimestamp = pod.DeletionTimestamp
	small.Spec.NodeName, small.Spec.HostNetwork = pod.Spec.NodeName, pod.Spec.HostNetwork
	small.Spec.InitContainers = stripAll(pod.Spec.InitContainers)
	small.Spec.Containers = stripAll(pod.Spec.Containers)
	small.Status.Phase = pod.Status.Phase
	small.Status.ExtendedResourceClaimStatus = pod.Status.ExtendedResourceClaimStatus
	small.Status.InitContainerStatuses = stripStatuses(pod.Status.InitContainerStatuses)
	small.Status.ContainerStatuses = stripStatuses(pod.Status.ContainerStatuses)
}

func stripAll(containers []corev1.Container) []corev1.Container {
	var small []corev1.Container
	for _, c := range containers {
		s := corev1.Container{Name: c.Name, RestartPolicy: c.RestartPolicy, Resources: standard(c.Resources)}
		if c.SecurityContext != nil {
			s.SecurityContext = &corev1.SecurityContext{Privileged: c.SecurityContext.Privileged}
		}
		small = append(small, s)
	}
	return small
}

func stripStatuses(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	var small []corev1.ContainerStatus
	for _, s := range statuses {
		if s.State.Running != nil {
			small = append(small, corev1.ContainerStatus{
				Name: s.Name, ContainerID: s.ContainerID, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			})
		}
	}
	return small
}

func stripContainers(containers []corev1.Container) []corev1.Container {
	var small []corev1.Container
	for _, c := range containers {
		if len(c.Resources.Claims) > 0 {
			small = append(small, corev1.Container{Name: c.Name, Resources: corev1.ResourceRequirements{Claims: c.Resources.Claims}})
		}
	}
	return small
}

// Get returns the facts of a pod, or nil while neither the watch nor the file has it.
func (p Pods) Get(uid types.UID) *Pod {
	var before *Pod
	if p.before != nil {
		before = p.before(uid) // first: what is shown meanwhile is not missed
	}
	if facts := p.shown(uid); facts != nil {
		return facts
	}
	return before
}

func (p Pods) shown(uid types.UID) *Pod {
	if p.indexer == nil {
		return nil
	}
	found, err := p.indexer.ByIndex(PodsByUID, string(uid))
	if err != nil || len(found) == 0 {
		return nil
	}
	pod, ok := found[0].(*corev1.Pod)
	if !ok {
		return nil
	}
	return podOf(pod)
}

// Wait is Get, giving the watch up to limit to catch up with the kubelet.
func (p Pods) Wait(ctx context.Context, uid types.UID, limit time.Duration) (facts *Pod) {
	_ = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, limit, true, func(context.Context) (bool, error) {
		facts = p.Get(uid)
		return facts != nil, nil
	})
	return facts // nil where the limit came first
}

func podOf(pod *corev1.Pod) *Pod {
	facts := &Pod{
		UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Named: map[string]bool{},
		Ended: pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed,
	}
	claims := map[string]string{} // the pod's word for it -> ResourceClaim
	for _, s := range pod.Status.ResourceClaimStatuses {
		if s.ResourceClaimName != nil {
			claims[s.Name] = *s.ResourceClaimName
		}
	}
	for _, c := range pod.Spec.ResourceClaims {
		if c.ResourceClaimName != nil {
			claims[c.Name] = *c.ResourceClaimName
		}
		if name, ok := claims[c.Name]; ok {
			facts.Claims = append(facts.Claims, name)
		}
	}
	for i, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range containers {
			container := containerOf(c, i == 0, claims)
			for _, name := range container.Claims {
				facts.Named[name] = true
			}
			facts.Containers = append(facts.Containers, container)
		}
	}
	return facts
}
