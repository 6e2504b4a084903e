// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	nets "plumbline.dev/plumbline/api/net/v1alpha1"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/selector"
)

// object is what we know of one object of a manifest or of the cluster.
type object struct {
	// source is the file, "-" for the standard input, or "cluster".
	source                string
	kind, namespace, name string
	// claim is the spec of a claim or of a template, which lies at path.
	claim *resourceapi.ResourceClaimSpec
	path  *field.Path
	// flat says that a request's fields lie in the request itself, as in
	// v1beta1, and not below "exactly".
	flat       bool
	allocation *resourceapi.AllocationResult
	class      *resourceapi.DeviceClassSpec
	rule       *resourceapi.DeviceTaintRule
	slice      *resourceapi.ResourceSlice
	pods       []cmdutil.PodSpec
	// networks are where it asks Multus for secondary networks.
	networks []*field.Path
	// pool and policy are objects of plumbline's own.
	pool   *nets.NetworkAddressPool
	policy *hosts.HostPolicy
	// kept says that the API server wrote the object, and dropped that it has left out
	// derived attributes on the way.
	kept, dropped bool
	// unreadable are fields that the API does not have, or not as they are.
	unreadable field.ErrorList
}

// String is as kubectl names an object, with its namespace.
func (o *object) String() string {
	if o.namespace == "" {
		return o.kind + " " + o.name
	}
	return o.kind + " " + o.namespace + "/" + o.name
}

// inputs are the objects that a command was given.
type inputs struct {
	objects []*object
	// classes are the device classes by name: those given, and those that
	// plumbline ships where no other of the name is given.
	classes map[string]*object
	// rules are those of the files that taint devices.
	rules []*resourceapi.DeviceTaintRule
	// offers are how NICs are shared, as the HostPolicies and slices of the files say it.
	offers []offer
	// pools are the pools of addresses of the files, or all of the cluster's; nil where none
	// is known. allPools says that there are no others.
	pools    map[string]bool
	allPools bool
	// singleCPUs and groupedCPUs say what devices of dra.cpu the slices show that
	// are known.
	singleCPUs, groupedCPUs bool
}

// addSlice learns from the devices of a slice.
func (in *inputs) addSlice(s *resourceapi.ResourceSlice) {
	in.offers = append(in.offers, offersOf(s)...)
	if s.Spec.Driver != slicecodec.DriverCPU {
		return
	}
	for _, d := range s.Spec.Devices {
		if _, group := d.Capacity[slicecodec.CapacityCPU]; group {
			in.groupedCPUs = true
		} else {
			in.singleCPUs = true
		}
	}
}

// request is a request of a claim, or one of its alternatives.
type request struct {
	// name is "request" or "request/subrequest".
	name  string
	class string
	// path is where the class and the selectors lie.
	path      *field.Path
	selectors []resourceapi.DeviceSelector
	capacity  *resourceapi.CapacityRequirements
	// several says that it asks for more than one device.
	several bool
	// all says that it asks for all devices that it chooses.
	all bool
	// admin says that it only looks at devices, and takes none.
	admin   bool
	derived []resourceapi.DeviceDerivedAttribute
}

// requests lists every alternative by itself.
func (o *object) requests() []request {
	var all []request
	for i, r := range o.claim.Devices.Requests {
		at := o.path.Child("devices", "requests").Index(i)
		if e := r.Exactly; e != nil {
			path := at
			if !o.flat {
				path = at.Child("exactly")
			}
			all = append(all, request{r.Name, e.DeviceClassName, path, e.Selectors, e.Capacity,
				e.Count > 1 || e.AllocationMode == resourceapi.DeviceAllocationModeAll, e.AllocationMode == resourceapi.DeviceAllocationModeAll, e.AdminAccess != nil && *e.AdminAccess, e.DerivedAttributes})
		}
		for j, s := range r.FirstAvailable {
			all = append(all, request{resourceclaim.CreateSubRequestRef(r.Name, s.Name), s.DeviceClassName, at.Child("firstAvailable").Index(j), s.Selectors, s.Capacity,
				s.Count > 1 || s.AllocationMode == resourceapi.DeviceAllocationModeAll, s.AllocationMode == resourceapi.DeviceAllocationModeAll, false, s.DerivedAttributes})
		}
	}
	return all
}

// allocated is what the scheduler would write for a request: the configuration
// of its class, and that of the claim. Then the driver's own code picks what
// applies.
func (in *inputs) allocated(o *object, r request, driverName string) driver.Allocation {
	var configs []resourceapi.DeviceAllocationConfiguration
	if class := in.classes[r.class]; class != nil {
		for _, c := range class.class.Config {
			configs = append(configs, resourceapi.DeviceAllocationConfiguration{
				Source: resourceapi.AllocationConfigSourceClass, Requests: []string{r.name}, DeviceConfiguration: c.DeviceConfiguration})
		}
	}
	for _, c := range o.claim.Devices.Config {
		configs = append(configs, resourceapi.DeviceAllocationConfiguration{
			Source: resourceapi.AllocationConfigSourceClaim, Requests: c.Requests, DeviceConfiguration: c.DeviceConfiguration})
	}
	claim := &resourceapi.ResourceClaim{}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Request: r.name, Driver: driverName}},
		Config:  configs,
	}}
	return driver.FromAPI(claim, driverName, "").Devices[0]
}

// driverOf is the driver that a class wants, "" where it does not say.
func (in *inputs) driverOf(class string) string {
	o := in.classes[class]
	if o == nil {
		return ""
	}
	for _, s := range o.class.Selectors {
		if s.CEL == nil {
			continue
		}
		if a, err := selector.Analyse(s.CEL.Expression); err == nil && a.Driver != "" {
			return a.Driver
		}
	}
	return ""
}

// mayBeOf says whether a request can be given a device of a driver of ours: its
// class wants that driver. One that does not say what it wants can be given a
// NIC, and what somebody wrote parameters for.
func (in *inputs) mayBeOf(o *object, r request, driverName string) bool {
	d := in.driverOf(r.class)
	if d != "" || driverName == slicecodec.DriverNet {
		return d == "" || d == driverName
	}
	return len(in.allocated(o, r, driverName).Configs) > 0
}

// find is the object that a command line named.
func (in *inputs) find(kind, namespace, name string) (*object, error) {
	for _, o := range in.objects {
		if o.kind == kind && o.name == name && (o.namespace == namespace || o.namespace == "") {
			return o, nil
		}
	}
	return nil, fmt.Errorf("%s %q is not among the objects", kind, name)
}
