// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package fit

import (
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
)

// objects are those of files that say what nodes have.
type objects struct {
	slices  []resourceapi.ResourceSlice
	classes []resourceapi.DeviceClass
	claims  []resourceapi.ResourceClaim
	rules   []*resourceapi.DeviceTaintRule
	nodes   []corev1.Node
}

// read reads all that is of a kind that counts; other kinds are passed over.
func (in *objects) read(b *resource.Builder) error {
	scheme, err := cmdutil.NewScheme(corev1.AddToScheme)
	if err != nil {
		return err
	}
	return cmdutil.Visit(b, func(u *unstructured.Unstructured, _ string) error { return in.add(u, scheme) })
}

func (in *objects) add(u *unstructured.Unstructured, scheme *runtime.Scheme) error {
	switch u.GetKind() {
	case "ResourceSlice":
		return convert(u, scheme, func(s *resourceapi.ResourceSlice) { in.slices = append(in.slices, *s) })
	case "DeviceClass":
		return convert(u, scheme, func(c *resourceapi.DeviceClass) { in.classes = append(in.classes, *c) })
	case "ResourceClaim":
		return convert(u, scheme, func(c *resourceapi.ResourceClaim) { in.claims = append(in.claims, *c) })
	case "DeviceTaintRule":
		return convert(u, scheme, func(r *resourceapi.DeviceTaintRule) { in.rules = append(in.rules, r) })
	case "Node":
		return convert(u, scheme, func(n *corev1.Node) { in.nodes = append(in.nodes, *n) })
	}
	return nil
}

// convert makes v1 of whatever version an object is written in. An object of
// another group that has the same kind is passed over.
func convert[T any](u *unstructured.Unstructured, scheme *runtime.Scheme, add func(*T)) error {
	typed, err := scheme.New(u.GroupVersionKind())
	if runtime.IsNotRegisteredError(err) && u.GroupVersionKind().Group != resourceapi.GroupName {
		return nil
	}
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, typed)
	}
	object := new(T)
	if same, ok := any(typed).(*T); ok && err == nil {
		object = same
	} else if err == nil {
		err = scheme.Convert(typed, object, nil)
	}
	if err != nil {
		return err
	}
	add(object)
	return nil
}
