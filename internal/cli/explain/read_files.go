// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bytes"
	"cmp"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/json"

	"plumbline.dev/plumbline/deploy"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
)

// objects are what was read.
type objects struct {
	// namespace is that of objects that do not say.
	namespace string
	nodes     []*corev1.Node
	pods      []*corev1.Pod
	slices    []*resourceapi.ResourceSlice
	classes   map[string]*resourceapi.DeviceClass
	claims    []*resourceapi.ResourceClaim
	templates []*resourceapi.ResourceClaimTemplate
	rules     []*resourceapi.DeviceTaintRule
	// notes are what was passed over.
	notes []string
	// keepsDerived says that the API server would keep the derived attributes of claims.
	keepsDerived bool
	// unread says of kinds why they could not be read.
	unread map[string]error
}

// readFiles reads manifests as kubectl does: what does not say is in the given
// namespace. Objects of other kinds are passed over, but for the pods in them.
func readFiles(names []string, recursive bool, stdin io.Reader, namespace string) (*objects, error) {
	in := &objects{namespace: namespace}
	return in, in.read(cmdutil.Files(names, recursive, stdin))
}

func (in *objects) read(b *resource.Builder) error {
	scheme, err := cmdutil.NewScheme(corev1.AddToScheme)
	if err != nil {
		return err
	}
	return cmdutil.Visit(b, func(u *unstructured.Unstructured, _ string) error { return in.add(u, scheme) })
}

func (in *objects) add(u *unstructured.Unstructured, scheme *runtime.Scheme) error {
	gvk := u.GroupVersionKind()
	if gvk.Group != resourceapi.GroupName && u.GetKind() != cmdutil.KindPod && u.GetKind() != "Node" {
		in.addPods(u)
		return nil
	}
	typed, err := scheme.New(gvk)
	if runtime.IsNotRegisteredError(err) {
		return nil
	}
	if err != nil {
		return err
	}
	text, err := u.MarshalJSON()
	if err != nil {
		return err
	}
	unknown, err := json.UnmarshalStrict(text, typed)
	if err != nil {
		return err
	}
	if kind := u.GetKind(); kind == cmdutil.KindClaim || kind == cmdutil.KindTemplate {
		in.note(u, unknown)
	}
	return in.keep(u.GetKind(), typed, scheme)
}

// note says of fields that the API does not know: a constraint that is not read
// must not look like one that is met.
func (in *objects) note(u *unstructured.Unstructured, unknown []error) {
	for _, err := range unknown {
		in.notes = append(in.notes, fmt.Sprintf("%s %s: %v: passed over here, and refused by kubectl apply", u.GetKind(), u.GetName(), err))
	}
}

// keep keeps an object as v1 of whatever version it is written in.
func (in *objects) keep(kind string, typed runtime.Object, scheme *runtime.Scheme) error {
	switch kind {
	case "Node":
		in.nodes = append(in.nodes, typed.(*corev1.Node))
	case cmdutil.KindPod:
		in.addPod(typed.(*corev1.Pod))
	case cmdutil.KindClaim:
		return convert(scheme, typed, func(c *resourceapi.ResourceClaim) {
			c.Namespace = cmp.Or(c.Namespace, in.namespace)
			in.claims = append(in.claims, c)
		})
	case cmdutil.KindTemplate:
		return convert(scheme, typed, func(t *resourceapi.ResourceClaimTemplate) {
			t.Namespace = cmp.Or(t.Namespace, in.namespace)
			in.templates = append(in.templates, t)
		})
	case "DeviceClass":
		return convert(scheme, typed, in.addClass)
	case "DeviceTaintRule":
		return convert(scheme, typed, func(r *resourceapi.DeviceTaintRule) { in.rules = append(in.rules, r) })
	case "ResourceSlice":
		return convert(scheme, typed, func(s *resourceapi.ResourceSlice) { in.slices = append(in.slices, s) })
	}
	return nil
}

func convert[T any](scheme *runtime.Scheme, typed runtime.Object, add func(*T)) error {
	object := new(T)
	if err := scheme.Convert(typed, object, nil); err != nil {
		return err
	}
	add(object)
	return nil
}

func (in *objects) addPod(p *corev1.Pod) {
	p.Namespace = cmp.Or(p.Namespace, in.namespace)
	in.pods = append(in.pods, p)
}

// addPods makes pods of the templates in a workload, one of each.
func (in *objects) addPods(u *unstructured.Unstructured) {
	for _, found := range cmdutil.FindPods(nil, u.Object) {
		p := &corev1.Pod{Spec: found.Spec}
		p.Namespace, p.Name = u.GetNamespace(), u.GetName()
		p.Labels = u.GetLabels()
		in.addPod(p)
	}
}

func (in *objects) addClass(c *resourceapi.DeviceClass) {
	if in.classes == nil {
		in.classes = map[string]*resourceapi.DeviceClass{}
	}
	in.classes[c.Name] = c
}

// addShippedClasses adds the classes that plumbline ships, where no other of the
// name is there.
func (in *objects) addShippedClasses() error {
	ours := &objects{}
	if err := ours.read(resource.NewLocalBuilder().Unstructured().Flatten().Stream(bytes.NewReader(deploy.DeviceClasses()), "shipped with plumbline")); err != nil {
		return err
	}
	for name, class := range ours.classes {
		if in.classes[name] == nil {
			in.addClass(class)
		}
	}
	return nil
}
