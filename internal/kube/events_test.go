// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
)

// lastEvent keeps what it is told last.
type lastEvent struct {
	record.EventRecorder
	about                 corev1.ObjectReference
	kind, reason, message string
}

func (l *lastEvent) Event(object runtime.Object, kind, reason, message string) {
	l.about, l.kind, l.reason, l.message = *object.(*corev1.ObjectReference), kind, reason, message
}

// kubectl describe node shows the events whose UID is the node's name.
func TestEventOfANode(t *testing.T) {
	var last lastEvent
	e := &Events{recorder: &last, node: "node-1"}
	e.Node(true, "CloudAway", "the cloud does not answer\x1b[1m"+strings.Repeat("°", maxEvent))
	want := corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "node-1", UID: "node-1"}
	if last.about != want || last.kind != corev1.EventTypeWarning || last.reason != "CloudAway" {
		t.Errorf("%s %s of %+v", last.kind, last.reason, last.about)
	}
	if len(last.message) > maxEvent || strings.ContainsRune(last.message, '\x1b') {
		t.Errorf("%d bytes: %q", len(last.message), last.message)
	}
}
