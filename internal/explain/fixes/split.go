// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package fixes

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"plumbline.dev/plumbline/internal/explain/reason"
)

// maxElsewhere is how many nodes are tried for what is split off.
const maxElsewhere = 8

// split divides claims between requests that no constraint ties together: into
// several claims where one has too many devices, else into what fits here and
// what fits elsewhere.
func (f *finder) split() {
	if f.cause == reason.TooManyResults {
		f.splitClaims()
		return
	}
	groups := f.groups()
	if len(groups) < 2 {
		return
	}
	requests, _ := f.conflictMembers()
	// What conflicts goes first, the last first.
	slices.Reverse(groups)
	slices.SortStableFunc(groups, func(a, b []memberRef) int { return toInt(touches(b, requests)) - toInt(touches(a, requests)) })
	for n := 1; n < len(groups); n++ {
		off := slices.Concat(groups[:n]...)
		rest := f.only(func(p memberRef) bool { return !slices.Contains(off, p) })
		if !f.fits(f.here(rest)) {
			continue
		}
		part := f.only(func(p memberRef) bool { return slices.Contains(off, p) })
		names := f.namesOf(off)
		for _, node := range f.elsewhere[:min(len(f.elsewhere), maxElsewhere)] {
			if f.propose(Split, fmt.Sprintf("split: %s in a claim of another pod, which fits on node %s; the rest fits here", names, node),
				f.here(rest), Trial{Cluster: f.a.Cluster, Node: node, Claims: part}) {
				return
			}
		}
		// Nobody is sent away with what fits nowhere.
		if f.fits(f.here(part)) {
			f.propose(Fewer, fmt.Sprintf("leave %s to a claim of another pod; the rest fits here", names), f.here(rest))
		}
		return
	}
}

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func touches(group, requests []memberRef) bool {
	return slices.ContainsFunc(group, func(p memberRef) bool { return slices.Contains(requests, p) })
}

func (f *finder) namesOf(group []memberRef) string {
	group = slices.Clone(group)
	slices.SortFunc(group, func(a, b memberRef) int {
		if a.claim != b.claim {
			return a.claim - b.claim
		}
		return a.index - b.index
	})
	var names []string
	for _, p := range group {
		names = append(names, f.request(p).Name)
	}
	return strings.Join(names, ", ")
}

// groups are the requests of all claims, those together that a constraint ties.
func (f *finder) groups() [][]memberRef {
	var groups [][]memberRef
	for c, claim := range f.claims {
		of := make([]int, len(claim.Spec.Devices.Requests))
		for i := range of {
			of[i] = i
		}
		for _, k := range claim.Spec.Devices.Constraints {
			first := -1
			for i, r := range claim.Spec.Devices.Requests {
				if !about(&k, &r) {
					continue
				}
				if first < 0 {
					first = of[i]
				}
				merged := of[i]
				for x := range of {
					if of[x] == merged {
						of[x] = first
					}
				}
			}
		}
		for i := range of {
			var group []memberRef
			for x := range of {
				if of[x] == i {
					group = append(group, memberRef{c, x})
				}
			}
			if len(group) > 0 {
				groups = append(groups, group)
			}
		}
	}
	return groups
}

// about says whether a constraint names a request, or one of its subrequests.
func about(k *resourceapi.DeviceConstraint, r *resourceapi.DeviceRequest) bool {
	return len(k.Requests) == 0 || slices.ContainsFunc(k.Requests, func(name string) bool { return resourceclaim.BaseRequestRef(name) == r.Name })
}

// only copies the claims with some of their requests. A constraint goes with the
// last request that it names; claims without requests go too.
func (f *finder) only(keep func(memberRef) bool) []*resourceapi.ResourceClaim {
	var all []*resourceapi.ResourceClaim
	for i, c := range f.claims {
		if part := Only(c, func(request int) bool { return keep(memberRef{i, request}) }, func(int) bool { return true }); part != nil {
			all = append(all, part)
		}
	}
	return all
}

// Only copies a claim with some of its requests and constraints, nil without
// any request.
func Only(c *resourceapi.ResourceClaim, request, constraint func(int) bool) *resourceapi.ResourceClaim {
	part := c.DeepCopy()
	part.Spec.Devices.Requests, part.Spec.Devices.Constraints = nil, nil
	kept := map[string]bool{}
	for i, r := range c.Spec.Devices.Requests {
		if request(i) {
			part.Spec.Devices.Requests = append(part.Spec.Devices.Requests, r)
			kept[r.Name] = true
		}
	}
	if len(part.Spec.Devices.Requests) == 0 {
		return nil
	}
	for i, k := range c.Spec.Devices.Constraints {
		if !constraint(i) {
			continue
		}
		if len(k.Requests) > 0 {
			k.Requests = slices.DeleteFunc(slices.Clone(k.Requests), func(name string) bool { return !kept[resourceclaim.BaseRequestRef(name)] })
			if len(k.Requests) == 0 {
				continue
			}
		}
		part.Spec.Devices.Constraints = append(part.Spec.Devices.Constraints, k)
	}
	return part
}

// splitClaims divides a claim with too many devices into claims of the same pod,
// none with more than one can have.
func (f *finder) splitClaims() {
	var all []*resourceapi.ResourceClaim
	var words []string
	groups := f.groups()
	for c, claim := range f.claims {
		var parts [][]memberRef
		sizes := []int{}
		for _, group := range groups {
			if group[0].claim != c {
				continue
			}
			size := f.size(group)
			at := slices.IndexFunc(sizes, func(n int) bool { return n+size <= resourceapi.AllocationResultsMaxSize })
			if at < 0 {
				parts, sizes, at = append(parts, nil), append(sizes, 0), len(parts)
			}
			parts[at], sizes[at] = append(parts[at], group...), sizes[at]+size
		}
		for i, part := range parts {
			copied := Only(claim, func(r int) bool { return slices.Contains(part, memberRef{c, r}) }, func(int) bool { return true })
			if len(parts) > 1 {
				copied.Name = fmt.Sprintf("%s-%d", claim.Name, i+1)
				words = append(words, fmt.Sprintf("%s (%s)", copied.Name, f.namesOf(part)))
			}
			all = append(all, copied)
		}
	}
	if len(words) > 0 {
		f.propose(Split, "split into claims of the same pod: "+strings.Join(words, ", "), f.here(all))
	}
}

// size is how many devices some requests want, by their first alternatives.
func (f *finder) size(group []memberRef) int {
	n := 0
	for _, p := range group {
		n += f.a.Problem.Claims[p.claim].Requests[p.index].Alternatives[0].Count
	}
	return n
}
