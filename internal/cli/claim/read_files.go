// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"io"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/json"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	nets "plumbline.dev/plumbline/api/net/v1alpha1"
	"plumbline.dev/plumbline/deploy"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/explain"
)

// shipped is the source of the device classes that plumbline brings.
const shipped = "shipped with plumbline"

// readFiles reads manifests as kubectl does: files, folders, addresses and "-".
func readFiles(names []string, recursive bool, stdin io.Reader) (*inputs, error) {
	scheme, err := cmdutil.NewScheme()
	if err != nil {
		return nil, err
	}
	in := &inputs{classes: map[string]*object{}}
	if err := in.read(cmdutil.Files(names, recursive, stdin), scheme); err != nil {
		return nil, err
	}
	return in, in.addShipped(scheme)
}

func (in *inputs) read(b *resource.Builder, scheme *runtime.Scheme) error {
	return cmdutil.Visit(b, func(u *unstructured.Unstructured, source string) error {
		o, err := decode(u, scheme)
		if err != nil {
			return err
		}
		o.source = source
		in.add(o)
		return nil
	})
}

func (in *inputs) add(o *object) {
	if o.rule != nil {
		in.rules = append(in.rules, o.rule)
	}
	if o.slice != nil {
		in.addSlice(o.slice)
	}
	if o.policy != nil {
		in.offers = append(in.offers, policyOffers(o.policy)...)
	}
	if o.pool != nil {
		in.addPool(o.name)
	}
	in.objects = append(in.objects, o)
	if o.class != nil {
		in.classes[o.name] = o
	}
}

// addShipped adds the classes that plumbline ships, where nothing of the name is
// known.
func (in *inputs) addShipped(scheme *runtime.Scheme) error {
	ours := &inputs{classes: map[string]*object{}}
	if err := ours.read(resource.NewLocalBuilder().Unstructured().Flatten().Stream(bytes.NewReader(deploy.DeviceClasses()), shipped), scheme); err != nil {
		return err
	}
	for name, class := range ours.classes {
		if in.classes[name] == nil {
			in.classes[name] = class
		}
	}
	return nil
}

// decode reads what we know of an object. An object of another kind is empty but
// for the pods in it.
func decode(u *unstructured.Unstructured, scheme *runtime.Scheme) (*object, error) {
	o := &object{kind: u.GetKind(), namespace: u.GetNamespace(), name: u.GetName()}
	gvk := u.GroupVersionKind()
	if gvk.Group == hosts.GroupVersion.Group {
		return o, o.decodeOwn(u)
	}
	if gvk.Group != resourceapi.GroupName {
		o.pods, o.networks = cmdutil.FindPods(nil, u.Object), findNetworks(nil, u.Object)
		return o, nil
	}
	typed, err := scheme.New(gvk)
	if runtime.IsNotRegisteredError(err) {
		o.unreadable = unknownVersion(u, scheme)
		return o, nil
	}
	if err != nil {
		return nil, err
	}
	if read, err := o.strictly(u, typed); err != nil || !read {
		return o, err
	}
	o.flat = gvk.Version == "v1beta1"
	return o, o.convert(typed, scheme)
}

// strictly reads an object, and reports fields that its version does not have. It is not read
// where a field is of another type.
func (o *object) strictly(u *unstructured.Unstructured, into any) (read bool, err error) {
	text, err := u.MarshalJSON()
	if err != nil {
		return false, err
	}
	strict, err := json.UnmarshalStrict(text, into, json.DisallowUnknownFields)
	var wrong *stdjson.UnmarshalTypeError
	if errors.As(err, &wrong) {
		o.unreadable = field.ErrorList{field.TypeInvalid(field.NewPath(wrong.Field), field.OmitValueType{}, "is a JSON "+wrong.Value)}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, e := range strict {
		var at interface{ FieldPath() string }
		if errors.As(e, &at) {
			o.unreadable = append(o.unreadable, &field.Error{Type: field.ErrorTypeForbidden, Field: at.FieldPath(), Detail: "no such field in " + u.GetAPIVersion()})
		}
	}
	return true, nil
}

// decodeOwn reads the objects of plumbline's own group that lint looks at.
func (o *object) decodeOwn(u *unstructured.Unstructured) error {
	switch o.kind {
	case kindPool:
		var pool nets.NetworkAddressPool
		read, err := o.strictly(u, &pool)
		if read {
			o.pool = &pool
		}
		return err
	case kindPolicy:
		var policy hosts.HostPolicy
		read, err := o.strictly(u, &policy)
		if read {
			o.policy = &policy
		}
		return err
	}
	return nil
}

// unknownVersion says that a kind that we read is of a version that we do not. Other
// kinds are none of our business.
func unknownVersion(u *unstructured.Unstructured, scheme *runtime.Scheme) field.ErrorList {
	var known []string
	for _, version := range scheme.VersionsForGroupKind(u.GroupVersionKind().GroupKind()) {
		known = append(known, version.String())
	}
	if len(known) == 0 {
		return nil
	}
	return field.ErrorList{field.NotSupported(field.NewPath("apiVersion"), u.GetAPIVersion(), known)}
}

// convert makes v1 of whatever version the object was written in.
func (o *object) convert(typed runtime.Object, scheme *runtime.Scheme) error {
	switch o.kind {
	case cmdutil.KindClaim:
		var c resourceapi.ResourceClaim
		if err := scheme.Convert(typed, &c, nil); err != nil {
			return err
		}
		o.setClaim(&c)
	case cmdutil.KindTemplate:
		var t resourceapi.ResourceClaimTemplate
		if err := scheme.Convert(typed, &t, nil); err != nil {
			return err
		}
		o.setTemplate(&t)
	case cmdutil.KindClass:
		var c resourceapi.DeviceClass
		if err := scheme.Convert(typed, &c, nil); err != nil {
			return err
		}
		o.class = &c.Spec
	case kindSlice:
		o.slice = &resourceapi.ResourceSlice{}
		return scheme.Convert(typed, o.slice, nil)
	case kindRule:
		o.rule = &resourceapi.DeviceTaintRule{}
		return scheme.Convert(typed, o.rule, nil)
	}
	return nil
}

// kindRule taints devices, kindSlice shows them, kindPolicy shares NICs, and links on those
// have addresses of a kindPool.
const (
	kindRule   = "DeviceTaintRule"
	kindSlice  = "ResourceSlice"
	kindPolicy = "HostPolicy"
	kindPool   = "NetworkAddressPool"
)

func (o *object) setClaim(c *resourceapi.ResourceClaim) {
	o.claim, o.path, o.allocation = &c.Spec, field.NewPath("spec"), c.Status.Allocation
	o.kept, o.dropped = c.UID != "", explain.Dropped(&c.ObjectMeta, &c.Spec)
}

func (o *object) setTemplate(t *resourceapi.ResourceClaimTemplate) {
	o.claim, o.path = &t.Spec.Spec, field.NewPath("spec", "spec")
	o.kept, o.dropped = t.UID != "", explain.Dropped(&t.ObjectMeta, &t.Spec.Spec)
}
