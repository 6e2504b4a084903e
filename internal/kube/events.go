// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"plumbline.dev/plumbline/internal/driver"
)

// maxEvent is how much an event may say (events.k8s.io, note).
const maxEvent = 1024

// Events makes Kubernetes events. The library counts repeated ones up and lets
// each object have a few a minute. A nil *Events makes none.
type Events struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
	node        string
}

// NewEvents makes events as the agent of a node, from Run on.
func NewEvents(ctx context.Context, node string) *Events {
	return NewComponentEvents(ctx, "plumbline-agent", node)
}

// NewComponentEvents makes events as another program does; node is empty where it
// belongs to none.
func NewComponentEvents(ctx context.Context, component, node string) *Events {
	b := record.NewBroadcaster(record.WithContext(ctx))
	scheme := runtime.NewScheme() // objects are given by reference
	return &Events{
		broadcaster: b, node: node,
		recorder: b.NewRecorder(scheme, corev1.EventSource{Component: component, Host: node}),
	}
}

// Run writes events until ctx ends.
func (e *Events) Run(ctx context.Context, client kubernetes.Interface) {
	e.broadcaster.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: client.CoreV1().Events("")})
	<-ctx.Done()
	e.broadcaster.Shutdown()
}

// Pod makes an event on a pod; a warning where something failed.
func (e *Events) Pod(namespace string, pod driver.PodRef, warning bool, reason, message string) {
	if e == nil {
		return
	}
	e.recorder.Event(&corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: pod.Name, UID: pod.UID,
	}, eventType(warning), reason, BoundedText(maxEvent, message))
}

// Node makes an event on the node.
func (e *Events) Node(warning bool, reason, message string) {
	if e == nil {
		return
	}
	// The kubelet's word for a node's UID is its name, and kubectl describe looks
	// for that (k8s.io/kubectl/pkg/describe, NodeDescriber).
	e.recorder.Event(&corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: e.node, UID: types.UID(e.node)},
		eventType(warning), reason, BoundedText(maxEvent, message))
}

func eventType(warning bool) string {
	if warning {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}
