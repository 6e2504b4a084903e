// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package slicecodec

import (
	"errors"
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
)

// reader reads typed values of a device's attributes. An absent attribute is nil, and
// so is a number below zero, with which other drivers mean unknown. One of another type
// is an error; errors are kept and reported at the end.
type reader struct {
	domain     string
	attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute
	err        error
}

// get finds an attribute by its full name, or without the domain where that is the
// driver's own: both are the same to the API.
func (r *reader) get(name string) (resourceapi.DeviceAttribute, bool) {
	if a, ok := r.attributes[resourceapi.QualifiedName(name)]; ok {
		return a, true
	}
	if bare, ok := strings.CutPrefix(name, r.domain+"/"); ok {
		a, ok := r.attributes[resourceapi.QualifiedName(bare)]
		return a, ok
	}
	if !strings.Contains(name, "/") {
		a, ok := r.attributes[resourceapi.QualifiedName(r.domain+"/"+name)]
		return a, ok
	}
	return resourceapi.DeviceAttribute{}, false
}

func (r *reader) text(name string) *string {
	a, ok := r.get(name)
	if ok && a.StringValue == nil {
		r.fail(name, errors.New("not a string"))
	}
	return a.StringValue
}

// texts reads a list, which a single value is too.
func (r *reader) texts(name string) []string {
	a, ok := r.get(name)
	switch {
	case a.StringValues != nil:
		return a.StringValues
	case a.StringValue != nil:
		return []string{*a.StringValue}
	case ok:
		r.fail(name, errors.New("not a list of strings"))
	}
	return nil
}

func (r *reader) version(name string) *string {
	a, ok := r.get(name)
	if ok && a.VersionValue == nil {
		r.fail(name, errors.New("not a version"))
	}
	return a.VersionValue
}

func (r *reader) number(name string) *int {
	a, ok := r.get(name)
	if !ok {
		return nil
	}
	if a.IntValue == nil {
		r.fail(name, errors.New("not a number"))
		return nil
	}
	if *a.IntValue < 0 {
		return nil
	}
	return ptr.To(int(*a.IntValue))
}

func (r *reader) flag(name string) bool {
	a, ok := r.get(name)
	if ok && a.BoolValue == nil {
		r.fail(name, errors.New("not a boolean"))
	}
	return ptr.Deref(a.BoolValue, false)
}

func (r *reader) address(name string) *model.PCIAddress {
	s := r.text(name)
	if s == nil {
		return nil
	}
	a, err := model.ParsePCIAddress(strings.ToLower(*s))
	if err != nil {
		r.fail(name, err)
		return nil
	}
	return &a
}

// cpus reads a list of CPUs.
func (r *reader) cpus(name string) *cpuset.CPUSet {
	list := r.text(name)
	if list == nil {
		return nil
	}
	cpus, err := ParseCPUs(*list)
	if err != nil {
		r.fail(name, err)
		return nil
	}
	return &cpus
}

func (r *reader) fail(name string, err error) {
	r.err = errors.Join(r.err, fmt.Errorf("attribute %s: %w", name, err))
}
