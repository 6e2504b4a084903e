// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claimgen

import (
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
)

// LimitError is a claim beyond what the API takes.
type LimitError struct {
	// What is beyond its limit, such as "results".
	What        string
	Has, Most   int
	Instruction string
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("the claim has %d %s, and the API takes %d: %s", e.Has, e.What, e.Most, e.Instruction)
}

// tooMany refuses a claim of too many devices before it is written: what is left
// is small, whatever was asked for.
func (o *Options) tooMany() error {
	n := o.GPUs + o.NICs
	if o.CPUs > 0 {
		n += o.parts()
	}
	if n <= resourceapi.AllocationResultsMaxSize {
		return nil
	}
	return &LimitError{"results (devices)", n, resourceapi.AllocationResultsMaxSize, o.splitAdvice()}
}

// checkLimits refuses a claim that the API would refuse, and says how to split it.
func (o *Options) checkLimits(spec *resourceapi.ResourceClaimSpec) error {
	d := &spec.Devices
	longest := 0
	for _, c := range d.Constraints {
		longest = max(longest, len(c.Requests))
	}
	for _, l := range []struct {
		what      string
		has, most int
	}{
		{"requests", len(d.Requests), resourceapi.DeviceRequestsMaxSize},
		{"constraints", len(d.Constraints), resourceapi.DeviceConstraintsMaxSize},
		{"requests in one constraint", longest, resourceapi.DeviceRequestsMaxSize},
		{"configurations", len(d.Config), resourceapi.DeviceConfigMaxSize},
	} {
		if l.has > l.most {
			return &LimitError{l.what, l.has, l.most, o.splitAdvice()}
		}
	}
	return nil
}

// mostClaims is how many claims are worth writing instead of one.
const mostClaims = 16

// splitAdvice finds the fewest equal claims that are within the limits, with CPUs rounded
// up.
func (o *Options) splitAdvice() string {
	for n := 2; n <= mostClaims; n++ {
		if o.GPUs%n+o.NICs%n > 0 {
			continue
		}
		part := *o
		part.GPUs, part.NICs = o.GPUs/n, o.NICs/n
		part.NUMANodes, part.Sockets = share(o.NUMANodes, n), share(o.Sockets, n)
		each := n * part.parts()
		part.CPUs = (o.CPUs + each - 1) / each * part.parts()
		if _, err := Spec(part); err == nil {
			return fmt.Sprintf("split it into %d claims of %s, and let the pod have all of them; devices are aligned within a claim, not between claims", n, part.flags())
		}
	}
	return "ask for less"
}

// share is one of n equal shares of the parts, or one part where they make none.
func share(parts, n int) int {
	if parts%n > 0 {
		return 1
	}
	return parts / n
}

// flags are the numbers as the command line takes them.
func (o *Options) flags() string {
	var parts []string
	for _, f := range []struct {
		name string
		n    int
	}{{"--gpus", o.GPUs}, {"--nics", o.NICs}, {"--cpus", o.CPUs}, {"--numa-nodes", o.NUMANodes}, {"--sockets", o.Sockets}} {
		if f.n > 1 || f.n == 1 && f.name != "--numa-nodes" && f.name != "--sockets" {
			parts = append(parts, fmt.Sprintf("%s %d", f.name, f.n))
		}
	}
	return strings.Join(parts, " ")
}
