// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claimgen

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
)

// What devices can share.
const (
	PCIe = "pcie"
	NUMA = "numa"
	// Any is a fallback only: nothing.
	Any = "any"
)

// Options are what a claim is to have.
type Options struct {
	// GPUs, NICs and CPUs are those of the whole claim; zero leaves them out.
	GPUs, NICs, CPUs int
	// Align is PCIe for pairs of GPUs and NICs below one PCIe root each, or NUMA
	// for devices of one NUMA node. CPUs are on the NUMA node of their GPUs.
	Align string
	// Fallback is what NICs may share with their GPUs where Align cannot be had:
	// NUMA after PCIe, or Any; empty for no fallback.
	Fallback string
	// NUMANodes is how many equal parts the claim has, each on one NUMA node;
	// zero stands for 1.
	NUMANodes int
	// WithoutRDMA takes NICs that have no RDMA device too.
	WithoutRDMA bool
	// GPUProduct is the product's name, such as "NVIDIA H200"; empty for any.
	GPUProduct string
	// InterfacePrefix names the interfaces in the pod: "rdma" makes rdma0,
	// rdma1 and so on. Empty keeps their names.
	InterfacePrefix string
	// MTU is set on the interfaces; zero keeps theirs.
	MTU int
}

// rule is something that is wrong with options, and what would be right.
type rule struct {
	wrong bool
	text  string
}

// check refuses what makes no claim, and says what would.
func (o *Options) check() error {
	for _, r := range slices.Concat(o.numbers(), o.words(), o.interfaces()) {
		if r.wrong {
			return errors.New(r.text)
		}
	}
	return nil
}

func (o *Options) numbers() []rule {
	parts := o.parts()
	return []rule{
		{min(o.GPUs, o.NICs, o.CPUs, o.NUMANodes, o.MTU) < 0, "a number is negative: want 0 or more"},
		{o.GPUs+o.NICs+o.CPUs == 0, "the claim is for nothing: want GPUs, NICs or CPUs"},
		{o.GPUs%parts+o.NICs%parts+o.CPUs%parts > 0, fmt.Sprintf("%d GPUs, %d NICs and %d CPUs on %d NUMA nodes: want numbers that it divides", o.GPUs, o.NICs, o.CPUs, parts)},
		{o.Align == PCIe && o.paired() && o.GPUs%o.NICs > 0 && o.NICs%o.GPUs > 0, fmt.Sprintf(
			"%d GPUs and %d NICs make no equal shares of PCIe roots: want one number to divide the other, or align by %s", o.GPUs, o.NICs, NUMA)},
	}
}

func (o *Options) words() []rule {
	return []rule{
		{o.Align == "socket" || o.Fallback == "socket", "align by socket: no driver says on which socket a GPU or a NIC is; where a socket is one NUMA node, numa is the same"},
		{o.Align != PCIe && o.Align != NUMA, fmt.Sprintf("align %q: want %s or %s", o.Align, PCIe, NUMA)},
		{!slices.Contains([]string{"", NUMA, Any}, o.Fallback), fmt.Sprintf("fallback %q: want %s or %s", o.Fallback, NUMA, Any)},
		{o.Fallback == o.Align, fmt.Sprintf("fallback %s is what the claim wants in the first place: want %s", o.Fallback, Any)},
		{o.Fallback != "" && !o.paired(), "a fallback is for NICs away from their GPUs: want GPUs and NICs with it"},
	}
}

func (o *Options) interfaces() []rule {
	return []rule{
		{(o.InterfacePrefix != "" || o.MTU > 0) && o.NICs == 0, "an interface's name and MTU are for NICs: want NICs with them"},
		{len(o.InterfacePrefix) > 12, fmt.Sprintf("interface prefix %q: want 12 characters at most, an interface's name has 15", o.InterfacePrefix)},
	}
}

// paired says whether there are both GPUs and NICs.
func (o *Options) paired() bool { return o.GPUs > 0 && o.NICs > 0 }

// parts is NUMANodes with its default.
func (o *Options) parts() int { return max(1, o.NUMANodes) }

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

// limits refuses a claim that the API would refuse, and says how to split it.
func (o *Options) limits(spec *resourceapi.ResourceClaimSpec) error {
	d := &spec.Devices
	for _, l := range []struct {
		what      string
		has, most int
	}{
		{"results (devices)", results(d), resourceapi.AllocationResultsMaxSize},
		{"requests", len(d.Requests), resourceapi.DeviceRequestsMaxSize},
		{"constraints", len(d.Constraints), resourceapi.DeviceConstraintsMaxSize},
		{"configurations", len(d.Config), resourceapi.DeviceConfigMaxSize},
	} {
		if l.has > l.most {
			return &LimitError{l.what, l.has, l.most, o.split()}
		}
	}
	return nil
}

// results is how many devices a claim is allocated.
func results(d *resourceapi.DeviceClaim) int {
	n := 0
	for _, r := range d.Requests {
		if r.Exactly != nil {
			n += int(r.Exactly.Count)
		} else {
			n += int(r.FirstAvailable[0].Count)
		}
	}
	return n
}

// split finds the fewest equal claims that are within the limits.
func (o *Options) split() string {
	for n := 2; n <= max(o.GPUs, o.NICs, 2); n++ {
		if o.GPUs%n+o.NICs%n+o.CPUs%n > 0 {
			continue
		}
		part := *o
		part.GPUs, part.NICs, part.CPUs = o.GPUs/n, o.NICs/n, o.CPUs/n
		if part.NUMANodes = o.parts() / n; o.parts()%n > 0 {
			part.NUMANodes = 1
		}
		if _, err := Spec(part); err == nil {
			return fmt.Sprintf("split it into %d claims of %s, and let the pod have all of them; devices are aligned within a claim, not between claims", n, part.flags())
		}
	}
	return "ask for less"
}

// flags are the numbers as the command line takes them.
func (o *Options) flags() string {
	var parts []string
	for _, f := range []struct {
		name string
		n    int
	}{{"--gpus", o.GPUs}, {"--nics", o.NICs}, {"--cpus", o.CPUs}, {"--numa-nodes", o.NUMANodes}} {
		if f.n > 0 && (f.name != "--numa-nodes" || f.n > 1) {
			parts = append(parts, fmt.Sprintf("%s %d", f.name, f.n))
		}
	}
	return strings.Join(parts, " ")
}
