// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claimcheck

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// Result is one statement of the claim and whether the kernel agrees.
type Result struct {
	// What is said, such as "gpu-req, nic-req: same pcieRoot".
	What string
	OK   bool
	// Why gives the values that decided.
	Why string
}

// Published finds what a driver published of a device.
type Published func(driver, device string) (PublishedDevice, bool)

// PublishedDevice is what a slice says of a device.
type PublishedDevice struct {
	Address model.PCIAddress
	// Simulated devices have no vendor's files.
	Simulated bool
}

// Claim compares an allocated claim with what a probe read of the pod that holds it:
// every allocated device is there and nothing else, and every constraint holds.
func Claim(claim *resourceapi.ResourceClaim, published Published, f Observation) []Result {
	var results []Result
	locations := map[string][]location{}
	wantNICs, wantGPUs := map[model.PCIAddress]bool{}, map[model.PCIAddress]bool{}
	for _, r := range claim.Status.Allocation.Devices.Results {
		var v Result
		var p location
		switch r.Driver {
		case slicecodec.DriverCPU:
			p, v = checkCPU(r, f)
		case slicecodec.DriverNet:
			p, v = checkPCI(r, published, f.NICs, wantNICs)
		case slicecodec.DriverGPU:
			p, v = checkPCI(r, published, f.GPUs, wantGPUs)
			if one, ok := published(r.Driver, r.Device); ok && !one.Simulated && v.OK {
				v = checkNVIDIAFiles(v, one.Address, f.GPUs)
			}
		default:
			v = Result{What: r.Request + " is " + r.Device, Why: "no reading for driver " + r.Driver}
		}
		results = append(results, v)
		locations[r.Request] = append(locations[r.Request], p)
	}
	results = append(results,
		checkNothingElse("network interface", f.NICs, wantNICs),
		checkPlaced(checkNothingElse("GPU", f.GPUs, wantGPUs), f.Unplaced))
	for _, c := range claim.Spec.Devices.Constraints {
		results = append(results, checkConstraint(c, locations))
	}
	return results
}

// location is where an allocated device was found; empty sets mean not found.
type location struct {
	root  string
	nodes cpuset.CPUSet
}

func checkPCI(r resourceapi.DeviceRequestAllocationResult, published Published, found []Device, want map[model.PCIAddress]bool) (location, Result) {
	v := Result{What: fmt.Sprintf("%s is %s", r.Request, r.Device)}
	said, ok := published(r.Driver, r.Device)
	if !ok {
		v.Why = "no slice publishes a PCI address for it"
		return location{}, v
	}
	address := said.Address
	want[address] = true
	i := slices.IndexFunc(found, func(l Device) bool { return l.Address == address })
	if i < 0 {
		v.Why = fmt.Sprintf("%s is not in the pod", address)
		return location{}, v
	}
	l := found[i]
	v.OK, v.Why = true, fmt.Sprintf("%s at %s, root %s, NUMA node %d", l.names(), l.Address, l.Root, l.NUMANode)
	return location{root: l.Root, nodes: cpuset.New(l.NUMANode)}, v
}

// nvidiaFiles are where programs look for a GPU of NVIDIA's: in CUDA, and for its display.
var nvidiaFiles = []string{"/dev/nvidia", "/dev/dri/card"}

// checkNVIDIAFiles wants all files of a GPU that NVIDIA's driver serves.
func checkNVIDIAFiles(v Result, address model.PCIAddress, found []Device) Result {
	i := slices.IndexFunc(found, func(d Device) bool { return d.Address == address })
	for _, prefix := range nvidiaFiles {
		if !slices.ContainsFunc(found[i].Files, func(f File) bool { return strings.HasPrefix(f.Path, prefix) }) {
			v.OK, v.Why = false, fmt.Sprintf("%s at %s has no %sN", found[i].names(), address, prefix)
		}
	}
	return v
}

// checkPlaced finds files of which nothing says whose they are.
func checkPlaced(v Result, unplaced []File) Result {
	for _, f := range unplaced {
		v.OK, v.Why = false, fmt.Sprintf("%s %s is of no GPU that the kernel names", f.Path, f.Number)
	}
	return v
}

func checkCPU(r resourceapi.DeviceRequestAllocationResult, f Observation) (location, Result) {
	want := r.ConsumedCapacity[slicecodec.CapacityCPU]
	nodes := f.NUMANodes()
	v := Result{What: fmt.Sprintf("%s is %s CPUs of %s", r.Request, want.String(), r.Device)}
	v.Why = fmt.Sprintf("CPUs %s, memory of node %s", f.CPUs, f.Mems)
	group := cpuset.New()
	for node, cpus := range f.NodeCPUs {
		if slicecodec.CPUGroupName(node) == r.Device {
			group = cpus
		}
	}
	v.OK = int64(f.CPUs.Size()) == want.Value() && f.CPUs.IsSubsetOf(group) && f.Mems.Equals(nodes)
	return location{nodes: nodes}, v
}

// checkNothingElse finds a device that the claim does not have.
func checkNothingElse(kind string, found []Device, want map[model.PCIAddress]bool) Result {
	v := Result{What: "no other " + kind, OK: true, Why: fmt.Sprintf("%d of %d claimed", len(want), len(found))}
	for _, l := range found {
		if !want[l.Address] {
			v.OK, v.Why = false, fmt.Sprintf("%s at %s was not claimed", l.names(), l.Address)
		}
	}
	return v
}

func checkConstraint(c resourceapi.DeviceConstraint, locations map[string][]location) Result {
	var attribute, relation string
	switch {
	case c.MatchAttribute != nil:
		attribute, relation = string(*c.MatchAttribute), "same"
	case c.DistinctAttribute != nil:
		attribute, relation = string(*c.DistinctAttribute), "distinct"
	default:
		return Result{What: "a constraint of an unknown kind", Why: "neither matchAttribute nor distinctAttribute"}
	}
	short := attribute[strings.LastIndex(attribute, "/")+1:]
	v := Result{What: fmt.Sprintf("%s: %s %s", strings.Join(c.Requests, ", "), relation, short)}
	requests := c.Requests
	if len(requests) == 0 { // no list means every request
		requests = slices.Sorted(maps.Keys(locations))
	}
	values, ok := constraintValues(requests, attribute, locations)
	v.Why = strings.Join(values, " and ")
	if !ok {
		v.Why = "cannot tell: " + v.Why
		return v
	}
	distinct := len(slices.Compact(slices.Sorted(slices.Values(values))))
	v.OK = (relation == "same" && distinct == 1) || (relation == "distinct" && distinct == len(values))
	return v
}

// constraintValues are the kernel's values of the attribute, one for each
// device under the constraint.
func constraintValues(requests []string, attribute string, locations map[string][]location) (values []string, ok bool) {
	ok = true
	for _, request := range requests {
		for _, p := range locations[request] {
			value := ""
			switch attribute {
			case slicecodec.AttrPCIeRoot:
				value = p.root
			case slicecodec.AttrNUMANode, slicecodec.AttrLegacyNUMANode:
				if p.nodes.Size() == 1 {
					value = p.nodes.String()
				}
			}
			ok = ok && value != ""
			values = append(values, value)
		}
	}
	return values, ok && len(values) > 0
}

// Exclusive says whether no two pods share a CPU.
func Exclusive(outcomes []Outcome) Result {
	v := Result{What: "no CPU serves two pods", OK: true}
	all := cpuset.New()
	for _, o := range outcomes {
		shared := all.Intersection(o.OnNode.CPUs)
		if !shared.IsEmpty() {
			v.OK, v.Why = false, fmt.Sprintf("CPUs %s do", shared)
			return v
		}
		all = all.Union(o.OnNode.CPUs)
	}
	v.Why = fmt.Sprintf("%d CPUs, %d pods", all.Size(), len(outcomes))
	return v
}

// Restored compares the node's interfaces before and after, line by line.
func Restored(before, after []string) Result {
	v := Result{What: "every interface is as it was", OK: len(before) > 0}
	v.Why = fmt.Sprintf("%d: name, MTU, MAC, flags, addresses, RDMA device, routes", len(before))
	for _, line := range before {
		if !slices.Contains(after, line) {
			v.OK, v.Why = false, "gone or changed: "+strings.TrimSpace(line)
		}
	}
	for _, line := range after {
		if !slices.Contains(before, line) {
			v.OK, v.Why = false, v.Why+"; now: "+strings.TrimSpace(line)
		}
	}
	return v
}
