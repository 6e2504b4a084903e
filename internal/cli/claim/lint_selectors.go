// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/selector"
	"plumbline.dev/plumbline/internal/suggest"
)

// selectors checks that they compile, and what they read. Class and driver are those of
// the devices that they see, "" where nothing before them says it.
func (l linter) selectors(at *field.Path, all []resourceapi.DeviceSelector, class, driver string) {
	for i, s := range all {
		if s.CEL == nil {
			continue
		}
		path := at.Child("selectors").Index(i).Child("cel", "expression")
		a, err := selector.Analyse(s.CEL.Expression)
		if err != nil {
			l.error(field.Invalid(path, s.CEL.Expression, err.Error()))
			continue
		}
		for _, read := range a.Reads {
			l.attribute(path, read.String())
		}
		driver = cmp.Or(driver, a.Driver)
		for _, read := range a.Unguarded {
			if !alwaysPublished(class, driver, read) {
				l.warning(&field.Error{Type: field.ErrorTypeForbidden, Field: path.String(), Detail: fmt.Sprintf(
					`%s is read also of devices that may lack it, which fails the allocation: want %q in device.attributes[%q] && before it`,
					read, read.Name, read.Domain)})
			}
		}
	}
}

// alwaysPublished says that no device of a class or a driver lacks an attribute. Where no driver is
// known the attribute's own domain stands for it.
func alwaysPublished(class, driver string, a selector.Attribute) bool {
	return slices.Contains(slicecodec.AlwaysPublished(cmp.Or(driver, a.Domain)), a.String()) ||
		slices.Contains(slicecodec.AlwaysOfClass(class), a.String())
}

// attribute warns of a name in a domain of plumbline that none of its drivers
// publishes.
func (l linter) attribute(at *field.Path, name string) {
	known := slicecodec.AttributeNames()
	domain, bare, qualified := strings.Cut(name, "/")
	if !qualified || slices.Contains(known, name) {
		return
	}
	here := inDomain(known, domain)
	switch meant := suggest.Closest(bare, here); {
	case meant != "" && slicecodec.ForeignName(name) && domain != slicecodec.DriverCPU:
		// A cloud, or a driver that is newer, may have it.
		l.warning(field.Invalid(at, name, "plumbline's drivers do not publish this attribute: did you mean "+domain+"/"+meant+"?"))
	case meant != "":
		l.warning(field.Invalid(at, name, "no driver publishes this attribute: did you mean "+domain+"/"+meant+"?"))
	case domain == slicecodec.DriverCPU:
		l.warning(field.Invalid(at, name, "no driver publishes this attribute: "+domain+" has "+strings.Join(here, ", ")))
	}
}

// inDomain are the names of a domain without it.
func inDomain(names []string, domain string) []string {
	var bare []string
	for _, name := range names {
		if rest, ok := strings.CutPrefix(name, domain+"/"); ok {
			bare = append(bare, rest)
		}
	}
	return bare
}

// lacking warns of a constraint whose attribute the devices of a request have not,
// or have of one driver only: a constraint keeps out each device that lacks its
// attribute.
func (l linter) lacking(at *field.Path, c resourceapi.DeviceConstraint, requests []request) {
	which, name := comparedBy(c)
	if name == "" {
		return
	}
	deriving := derivedUnder(c, requests)
	for _, r := range requests {
		driver := l.in.driverOf(r.class)
		if !appliesTo(c.Requests, r) || r.derives(name) || !slices.Contains(slicecodec.Drivers(), driver) {
			continue
		}
		why := whyLacking(name, driver)
		if why == "" && len(deriving) > 0 && !slices.Contains(slicecodec.AttributesOf(driver), name) {
			why = fmt.Sprintf("it does not derive %s as %s does, and %s does not publish it", name, strings.Join(deriving, " and "), driver)
		}
		if why != "" {
			l.warning(field.Invalid(at.Child(which), name, fmt.Sprintf("request %s: %s, and a constraint keeps out every device that lacks its attribute", r.name, why)))
			return
		}
	}
}

// comparedBy is what a constraint compares, and the field that says so.
func comparedBy(c resourceapi.DeviceConstraint) (which, name string) {
	switch {
	case c.MatchAttribute != nil:
		return "matchAttribute", string(*c.MatchAttribute)
	case c.DistinctAttribute != nil:
		return "distinctAttribute", string(*c.DistinctAttribute)
	}
	return "", ""
}

// compared warns of an attribute that a constraint compares, and that no driver
// publishes and no request derives.
func (l linter) compared(at *field.Path, c resourceapi.DeviceConstraint, requests []request) {
	which, name := comparedBy(c)
	if name == "" || len(derivedUnder(c, requests)) > 0 {
		return
	}
	var derived []string
	for _, r := range requests {
		for _, d := range r.derived {
			derived = append(derived, string(d.Name))
		}
	}
	known := slices.Contains(slicecodec.AttributeNames(), name)
	switch meant := suggest.Closest(name, derived); {
	case meant != "" && meant != name && !known:
		l.warning(field.Invalid(at.Child(which), name, "no request under it derives this attribute: did you mean "+meant+"?"))
	case strings.HasPrefix(name, "derived/"):
		l.warning(field.Invalid(at.Child(which), name, "no request under it derives this attribute, and no driver publishes attributes of this domain"))
	default:
		l.attribute(at.Child(which), name)
	}
}

// whyLacking says why devices of a driver may lack an attribute, or nothing.
func whyLacking(name, driver string) string {
	switch {
	case !slices.Contains(slicecodec.AttributeNames(), name):
		return "" // unknown, which is another warning, or a cloud's
	case !slices.Contains(slicecodec.AttributesOf(driver), name):
		return "no device of " + driver + " has " + name
	case driver == slicecodec.DriverGPU && (name == slicecodec.AttrSocket || name == slicecodec.AttrLegacyNUMANode):
		return "NVIDIA's own driver has no " + name + " (the GPUs that plumbline serves have; it has " + slicecodec.AttrNUMANode + ")"
	case driver == slicecodec.DriverCPU && name == slicecodec.AttrPCIeRoot:
		return "CPUs have " + name + " only where the agent has --expose-pcie-roots and the cluster the feature gate DRAListTypeAttributes"
	}
	return ""
}

// individual says that a request is for single CPUs, which have no capacity: those
// are what the slices show, or its selectors or a constraint read what they alone
// have.
func (l linter) individual(r request) bool {
	if l.in.singleCPUs && !l.in.groupedCPUs {
		return true
	}
	var read []string
	all := slices.Clone(r.selectors)
	if class := l.in.classes[r.class]; class != nil {
		all = append(all, class.class.Selectors...)
	}
	for _, s := range all {
		if s.CEL == nil {
			continue
		}
		if a, err := selector.Analyse(s.CEL.Expression); err == nil {
			for _, attribute := range a.Reads {
				read = append(read, attribute.String())
			}
		}
	}
	for _, c := range l.o.claim.Devices.Constraints {
		if appliesTo(c.Requests, r) {
			read = append(read, string(ptr.Deref(c.MatchAttribute, "")), string(ptr.Deref(c.DistinctAttribute, "")))
		}
	}
	individual := slicecodec.IndividualCPUAttributes()
	return slices.ContainsFunc(read, func(name string) bool { return slices.Contains(individual, name) })
}

// wholeGroup warns of a request for CPUs that does not say how many: it takes
// the whole device.
func (l linter) wholeGroup(r request) {
	if l.in.driverOf(r.class) != slicecodec.DriverCPU || l.individual(r) {
		return
	}
	if r.capacity != nil {
		if _, says := r.capacity.Requests[slicecodec.CapacityCPU]; says {
			return
		}
	}
	l.warning(&field.Error{Type: field.ErrorTypeRequired, Field: r.path.Child("capacity", "requests").Key(slicecodec.CapacityCPU).String(),
		Detail: "without it the request takes all CPUs of a device"})
}

// pairwise warns of a constraint on requests for several devices each that
// reads as if it made pairs: it wants all of them at one place.
func (l linter) pairwise(at *field.Path, c resourceapi.DeviceConstraint) {
	if c.MatchAttribute == nil || *c.MatchAttribute != slicecodec.AttrPCIeRoot {
		return
	}
	several, all := 0, 0
	for _, r := range l.o.claim.Devices.Requests {
		if len(c.Requests) > 0 && !slices.Contains(c.Requests, r.Name) || r.Exactly == nil {
			continue
		}
		all += int(max(1, r.Exactly.Count))
		if r.Exactly.Count > 1 {
			several++
		}
	}
	if several > 1 {
		l.warning(field.Invalid(at.Child("matchAttribute"), string(*c.MatchAttribute), fmt.Sprintf(
			"wants all %d devices below one PCIe root, and makes no pairs: want a request and a constraint for each pair (claim new writes them)", all)))
	}
}

// tooMany refuses a claim of more devices than the API allocates to one.
func (l linter) tooMany(at *field.Path) {
	n := 0
	for _, r := range l.o.claim.Devices.Requests {
		fewest := 0
		if e := r.Exactly; e != nil {
			fewest = int(max(1, e.Count))
		}
		for i, s := range r.FirstAvailable {
			if count := int(max(1, s.Count)); i == 0 || count < fewest {
				fewest = count
			}
		}
		n += fewest
	}
	if n > resourceapi.AllocationResultsMaxSize {
		l.error(&field.Error{Type: field.ErrorTypeTooMany, Field: at.String(), BadValue: n, Detail: fmt.Sprintf(
			"the claim is for %d devices, and %d can be allocated to one: want several claims, aligned each by itself", n, resourceapi.AllocationResultsMaxSize)})
	}
}
