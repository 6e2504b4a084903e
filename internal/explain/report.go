// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/explain/compile"
	"plumbline.dev/plumbline/internal/explain/fixes"
	"plumbline.dev/plumbline/internal/explain/reason"
	"plumbline.dev/plumbline/internal/explain/snapshot"
	"plumbline.dev/plumbline/internal/suggest"
)

// Verdicts of a report, and of its groups of nodes.
const (
	// Fits: the claims can be allocated, on some node at least.
	Fits = "fits"
	// FitsNot: they cannot.
	FitsNot = "does not fit"
	// Aborts: the scheduler's allocator ends with an error, for all nodes.
	Aborts = "aborts"
	// Allocated: there is nothing to allocate.
	Allocated = "allocated"
	// Excluded: the pod cannot run on the node for other reasons than devices.
	Excluded = "excluded"
	// Unknown: the search was cut short, or the node uses what compile does not know.
	Unknown = "unknown"
)

// Report is the answer for a claim or a pod.
type Report struct {
	// Subject is such as "ResourceClaim default/train".
	Subject string `json:"subject"`
	// Source says where the nodes come from.
	Source string `json:"source"`
	// Kubernetes is the version whose scheduler this is about, such as "1.37".
	Kubernetes string `json:"kubernetes"`
	Verdict    string `json:"verdict"`
	// Findings are wrong whatever the node is.
	Findings []Finding `json:"findings,omitempty"`
	// Nodes is how many were examined.
	Nodes  int     `json:"nodes"`
	Groups []Group `json:"groups,omitempty"`
	// Allocation are the devices of claims that have theirs.
	Allocation []Placed `json:"allocation,omitempty"`
	// Notes are what a reader must know.
	Notes []string `json:"notes,omitempty"`
}

// Finding is something wrong with the claims themselves.
type Finding struct {
	// Cause is a code, for programs.
	Cause string `json:"cause"`
	// Object and Field say where.
	Object  string `json:"object,omitempty"`
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
}

// Group is nodes with the same answer. What is said of devices is about the
// first.
type Group struct {
	Nodes   []string `json:"nodes"`
	Verdict string   `json:"verdict"`
	// Cause is a code, for programs.
	Cause string `json:"cause,omitempty"`
	// First is the first request, in the order of the claims, that cannot be met
	// with those before it.
	First   string `json:"first,omitempty"`
	Message string `json:"message,omitempty"`
	// Details are what there is for each request of the conflict.
	Details []string `json:"details,omitempty"`
	// Conflict is a minimal unsatisfiable subset (MUS): requests and constraints that
	// cannot be met together, while without any one of them the rest can.
	Conflict []string `json:"conflict,omitempty"`
	// Smallest says that no smaller set conflicts.
	Smallest bool `json:"smallest,omitempty"`
	// ExceedsBudget says that the scheduler's own search tries very many devices before
	// it ends, which can take longer than its time-out.
	ExceedsBudget bool `json:"tedious,omitempty"`
	// Fixes are changes with which the claims fit, each tried.
	Fixes []fixes.Fix `json:"fixes,omitempty"`
	// Placed are the devices that would do, where the claims fit.
	Placed []Placed `json:"placed,omitempty"`
}

// Placed is a device for a request.
type Placed struct {
	Claim   string `json:"claim"`
	Request string `json:"request"`
	Driver  string `json:"driver"`
	Pool    string `json:"pool"`
	Device  string `json:"device"`
}

// findings are what is wrong with claims whatever the node is.
func findings(c *snapshot.Cluster, claims []*resourceapi.ResourceClaim) []Finding {
	var all []Finding
	for _, claim := range claims {
		object := "ResourceClaim " + claim.Namespace + "/" + claim.Name
		var names []string
		for i := range claim.Spec.Devices.Requests {
			r := &claim.Spec.Devices.Requests[i]
			names = append(names, r.Name)
			for _, ask := range compile.Subrequests(i, r) {
				names = append(names, ask.Name)
				if ask.Class == "" || c.Classes[ask.Class] != nil {
					continue
				}
				message := fmt.Sprintf("device class %q does not exist", ask.Class)
				if meant := suggest.Closest(ask.Class, slices.Sorted(maps.Keys(c.Classes))); meant != "" {
					message += ": did it mean " + meant + "?"
				}
				all = append(all, Finding{Cause: reason.ClassAbsent, Object: object, Field: ask.Path + ".deviceClassName", Message: message})
			}
		}
		for i, k := range claim.Spec.Devices.Constraints {
			for x, name := range k.Requests {
				if slices.Contains(names, name) {
					continue
				}
				message := fmt.Sprintf("the claim has no request %q", name)
				if meant := suggest.Closest(name, names); meant != "" {
					message += ": did it mean " + meant + "?"
				} else {
					message += ": it has " + strings.Join(slices.Compact(names), ", ")
				}
				all = append(all, Finding{Cause: RequestAbsent, Object: object, Field: fmt.Sprintf("spec.devices.constraints[%d].requests[%d]", i, x), Message: message})
			}
		}
	}
	return all
}

// RequestAbsent is the cause of a finding: a constraint names a request that the
// claim does not have.
const RequestAbsent = "request-absent"
