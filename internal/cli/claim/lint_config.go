// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"errors"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/cli/claim/policy"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/suggest"
)

func (l linter) class() {
	spec := field.NewPath("spec")
	l.selectors(spec, l.o.class.Selectors, "", "")
	l.classOfNICs()
	for i, c := range l.o.class.Config {
		at := spec.Child("config").Index(i)
		l.driverName(at, c.Opaque)
		unreadable, mistakes := checkLayer(at, c.Opaque)
		for _, e := range unreadable {
			l.error(e)
		}
		for _, e := range mistakes {
			l.mistake(e, "the claim")
		}
		if nic, err := v1alpha1.DecodeNetworkConfig(rawOf(c.Opaque)); err == nil {
			l.poolIsThere(at.Child("opaque", "parameters"), nic)
		}
	}
	l.nvidiaClass()
}

// mistake reports what is wrong with one layer. What another layer can set right
// is a warning where that layer is not known.
func (l linter) mistake(e *field.Error, other string) {
	if !dependsOnOthers(e) {
		l.error(e)
		return
	}
	e.Detail += " (unless " + other + " says otherwise)"
	l.warning(e)
}

// dependsOnOthers says whether another layer can set a mistake right: what is
// missing it may add, and of two fields that exclude each other it may unsay one.
func dependsOnOthers(e *field.Error) bool {
	return e.Type == field.ErrorTypeRequired || e.Type == field.ErrorTypeForbidden
}

func (l linter) claim() {
	devices := l.o.path.Child("devices")
	requests := l.o.requests()
	known := map[string]bool{}
	for _, r := range requests {
		known[r.name], known[resourceclaim.BaseRequestRef(r.name)] = true, true
		l.selectors(r.path, r.selectors, r.class, l.in.driverOf(r.class))
		l.wholeGroup(r)
		l.allOfTwins(r)
	}
	l.derived(devices, requests)
	for i, c := range l.o.claim.Devices.Constraints {
		at := devices.Child("constraints").Index(i)
		l.requestNames(at, c.Requests, known)
		l.compared(at, c, requests)
		l.lacking(at, c, requests)
		l.pairwise(at, c)
	}
	l.tooMany(devices.Child("requests"))
	reported := map[string]bool{}
	for i, c := range l.o.claim.Devices.Config {
		at := devices.Child("config").Index(i)
		l.requestNames(at, c.Requests, known)
		l.driverName(at, c.Opaque)
		unreadable, mistakes := checkLayer(at, c.Opaque)
		for _, e := range unreadable {
			l.error(e)
		}
		l.ofAdministrators(at, c.Opaque)
		l.guarded(at, c.Opaque)
		for _, e := range mistakes {
			if dependsOnOthers(e) {
				continue // what counts is what it merges to
			}
			reported[e.Field+e.Detail] = true
			l.error(e)
		}
	}
	for _, r := range requests {
		for _, s := range schemas {
			if l.in.mayBeOf(l.o, r, s.driver) {
				l.merged(s, r, reported)
			}
		}
	}
	l.together(requests)
	l.nvidiaClaim(requests)
}

// ofAdministrators refuses in a claim what only a class may say, as the driver does.
func (l linter) ofAdministrators(at *field.Path, o *resourceapi.OpaqueDeviceConfiguration) {
	if o == nil || o.Driver != slicecodec.DriverNet {
		return
	}
	c, err := v1alpha1.DecodeNetworkConfig(o.Parameters.Raw)
	if err != nil {
		return // said before
	}
	for _, e := range below(at.Child("opaque", "parameters"), c.MistakesOfClaim().ToAggregate()) {
		l.error(e)
	}
}

// guarded says what the shipped policy does about a configuration of a claim.
func (l linter) guarded(at *field.Path, o *resourceapi.OpaqueDeviceConfiguration) {
	if o == nil || o.Driver != slicecodec.DriverNet {
		return
	}
	c, err := v1alpha1.DecodeNetworkConfig(o.Parameters.Raw)
	if err != nil {
		return // said before
	}
	for _, u := range policy.Uses(c) {
		l.note(&field.Error{Type: field.ErrorTypeForbidden, Field: at.Child("opaque", "parameters").String() + "." + u.Field, Detail: u.Note(l.o.namespace)})
	}
}

// together checks what the NICs of one pod cannot have at once. Of alternatives
// one is taken, so that they are left out.
func (l linter) together(requests []request) {
	var nics []driver.Allocation
	var of []request
	for _, r := range requests {
		if resourceclaim.IsSubRequestRef(r.name) || r.admin || l.in.driverOf(r.class) != slicecodec.DriverNet {
			continue
		}
		nics, of = append(nics, l.in.allocated(l.o, r, slicecodec.DriverNet)), append(of, r)
	}
	if len(nics) > 1 && !knowsDriver {
		l.note(&field.Error{Type: field.ErrorTypeForbidden, Field: "spec.devices", Detail: "not checked on this system: what the NICs of one pod cannot share; want lint on Linux"})
	}
	for i, err := range checkTogether(nics) {
		if err == nil || wrongAlone(nics[i]) {
			continue // which is said where it stands
		}
		for line := range strings.Lines(err.Error()) {
			path, why, _ := strings.Cut(strings.TrimSpace(line), ": ")
			l.error(&field.Error{Type: field.ErrorTypeForbidden, Field: l.layerOf(schemas[0], path, of[i]).String() + "." + path, Detail: why})
		}
	}
}

// wrongAlone says whether the driver refuses parameters of a NIC by themselves, whatever
// other NICs the pod has.
func wrongAlone(a driver.Allocation) bool {
	layers, err := schemas[0].decodeLayers(a.Configs)
	if err != nil {
		return true
	}
	c, _ := schemas[0].effective(layers)
	return len(c.Mistakes())+len(mistakesOfClaim(layers)) > 0
}

// mistakesOfClaim are what the layers of a claim say that is an administrator's to say.
func mistakesOfClaim(layers []layer) field.ErrorList {
	var errs field.ErrorList
	for _, l := range layers {
		if nic, ok := l.config.(*v1alpha1.NetworkConfig); ok && l.source == driver.SourceClaim {
			errs = append(errs, nic.MistakesOfClaim()...)
		}
	}
	return errs
}

// requestNames wants the requests that a constraint or configuration names to
// be there.
func (l linter) requestNames(at *field.Path, names []string, known map[string]bool) {
	for i, name := range names {
		if !known[name] {
			l.error(notFound(at.Child("requests").Index(i), name, slices.Sorted(maps.Keys(known))))
		}
	}
}

// notFound names what is there instead.
func notFound(at *field.Path, name string, there []string) *field.Error {
	e := field.NotFound(at, name)
	e.Detail = "want one of " + strings.Join(there, ", ")
	if len(there) == 0 {
		e.Detail = "there is none"
	}
	return e
}

// driverName wants parameters to be for a driver, as the API server does, and warns of one
// with nearly the name of one of plumbline's.
func (l linter) driverName(at *field.Path, o *resourceapi.OpaqueDeviceConfiguration) {
	if o == nil || slices.Contains(slicecodec.Drivers(), o.Driver) {
		return
	}
	at = at.Child("opaque", "driver")
	if o.Driver == "" {
		l.error(field.Required(at, "want the driver that the parameters are for, such as "+slicecodec.DriverNet))
		return
	}
	if meant := suggest.Closest(o.Driver, slicecodec.Drivers()); meant != "" {
		l.warning(field.Invalid(at, o.Driver, "did you mean "+meant+"?"))
	}
}

// checkLayer checks one layer by itself: what cannot be read, or else what is
// wrong with its values.
func checkLayer(at *field.Path, o *resourceapi.OpaqueDeviceConfiguration) (unreadable, mistakes field.ErrorList) {
	if o == nil {
		return nil, nil
	}
	s, ok := schemaOf(o.Driver)
	if !ok {
		return nil, nil
	}
	at = at.Child("opaque", "parameters")
	c, err := s.decode(o.Parameters.Raw)
	if err != nil {
		return below(at, err), nil
	}
	return nil, below(at, c.Mistakes().ToAggregate())
}

// below moves the mistakes of parameters to where those lie in their object.
func below(at *field.Path, err error) field.ErrorList {
	if err == nil {
		return nil
	}
	all := []error{err}
	var several utilerrors.Aggregate
	if errors.As(err, &several) {
		all = several.Errors()
	}
	var errs field.ErrorList
	for _, err := range all {
		var e *field.Error
		if !errors.As(err, &e) {
			errs = append(errs, field.Invalid(at, field.OmitValueType{}, err.Error()))
			continue
		}
		moved := *e
		moved.Field = at.String()
		if e.Field != "parameters" {
			moved.Field += "." + e.Field
		}
		errs = append(errs, &moved)
	}
	return errs
}

// merged checks what a request gets: the parameters of its class under those of
// the claim.
func (l linter) merged(s schema, r request, reported map[string]bool) {
	allocation := l.in.allocated(l.o, r, s.driver)
	layers, err := s.decodeLayers(allocation.Configs)
	if err != nil {
		return // said where they stand
	}
	c, origins := s.effective(layers)
	if nic, ok := c.(*v1alpha1.NetworkConfig); ok && r.several {
		l.forOne(r, "name", nic.Interface.Name)
		l.forOne(r, "hardwareAddr", nic.Interface.HardwareAddr)
	}
	if nic, ok := c.(*v1alpha1.NetworkConfig); ok {
		l.kindOfLink(s, r, nic)
		l.ofOffers(s, r, nic)
		l.poolIsThere(l.layerOf(s, "interface.ipam", r), nic)
	}
	for _, e := range c.Mistakes() {
		at := l.layerOf(s, e.Field, r)
		moved := *e
		moved.Field = at.String() + "." + e.Field
		if reported[moved.Field+moved.Detail] {
			continue
		}
		reported[moved.Field+moved.Detail] = true
		if from(origins, e.Field) == driver.SourceClass {
			moved.Detail += ", as class " + r.class + " says"
		}
		if l.in.classes[r.class] == nil {
			l.mistake(&moved, "class "+r.class+", which is not among the objects,")
			continue
		}
		l.error(&moved)
	}
}

// forOne refuses a field of the interface that only one device of a pod can have.
func (l linter) forOne(r request, name string, value *string) {
	if value != nil {
		l.error(field.Invalid(l.layerOf(schemas[0], "interface."+name, r).Child("interface", name), *value,
			"request "+r.name+" takes several devices, and it can be given to one: want a request for each"))
	}
}

// layerOf is where in the claim a mistake of a request is to be mended: at the
// last configuration that sets the field, or else at the last one.
func (l linter) layerOf(s schema, path string, r request) *field.Path {
	at := l.o.path.Child("devices", "config")
	var last, sets *field.Path
	for i, c := range l.o.claim.Devices.Config {
		if c.Opaque == nil || c.Opaque.Driver != s.driver || !appliesTo(c.Requests, r) {
			continue
		}
		last = at.Index(i).Child("opaque", "parameters")
		own, err := s.decode(c.Opaque.Parameters.Raw)
		if err == nil && slices.ContainsFunc(own.FieldValues(), func(f v1alpha1.FieldValue) bool { return within(f.Path, path) }) {
			sets = last
		}
	}
	switch {
	case sets != nil:
		return sets
	case last != nil:
		return last
	}
	return at
}

// from is the source of a field, or of the first part of it that is set.
func from(origins v1alpha1.Origins, path string) string {
	for _, leaf := range slices.Sorted(maps.Keys(origins)) {
		if within(leaf, path) {
			return origins[leaf]
		}
	}
	return ""
}

// appliesTo says whether a configuration or constraint of a claim is for a request, as
// resourceclaim.ConfigForResult says it of the results of an allocated claim.
func appliesTo(names []string, r request) bool {
	return len(names) == 0 || slices.Contains(names, r.name) || slices.Contains(names, resourceclaim.BaseRequestRef(r.name))
}

// within says whether a field is another one or part of it.
func within(leaf, path string) bool {
	rest, ok := strings.CutPrefix(leaf, path)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
