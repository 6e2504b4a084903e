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

// Options are what a claim is to have.
type Options struct {
	// GPUs, NICs and CPUs are those of the whole claim; zero leaves them out.
	GPUs, NICs, CPUs int
	// Align is PCIe for pairs of GPUs and NICs below one PCIe root each, or NUMA
	// or Socket for devices of one NUMA node or socket. CPUs are where their GPUs
	// are: on their socket with Socket, else on their NUMA node.
	Align string
	// Fallback is what NICs may share with their GPUs where Align cannot be had,
	// the nearest first: any of NUMA, Socket and Any that are wider than Align.
	Fallback []string
	// NUMANodes is how many equal parts the claim has, each on one NUMA node;
	// zero stands for 1.
	NUMANodes int
	// Sockets is the same where Align is Socket.
	Sockets int
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
		{min(o.GPUs, o.NICs, o.CPUs, o.NUMANodes, o.Sockets, o.MTU) < 0, "a number is negative: want 0 or more"},
		{max(o.GPUs, o.NICs, o.CPUs, o.NUMANodes, o.Sockets) > mostAsked, fmt.Sprintf("a number is beyond any machine's: want %d at most", mostAsked)},
		{o.GPUs+o.NICs+o.CPUs == 0, "the claim is for nothing: want GPUs, NICs or CPUs"},
		{o.NUMANodes > 1 && o.Align == Socket, "align by socket, in parts of one NUMA node each: want --sockets instead of --numa-nodes"},
		{o.Sockets > 1 && o.Align != Socket, fmt.Sprintf("parts of one socket each, aligned by %s: want --align %s, or --numa-nodes instead of --sockets", o.Align, Socket)},
		{o.GPUs%parts+o.NICs%parts+o.CPUs%parts > 0, fmt.Sprintf("%d GPUs, %d NICs and %d CPUs on %d %s: want numbers that this divides",
			o.GPUs, o.NICs, o.CPUs, parts, map[bool]string{true: "sockets", false: "NUMA nodes"}[o.Align == Socket])},
		{o.Align == PCIe && o.paired() && o.GPUs%o.NICs > 0 && o.NICs%o.GPUs > 0, fmt.Sprintf(
			"%d GPUs and %d NICs make no equal shares of PCIe roots: want one number to divide the other, or align by %s", o.GPUs, o.NICs, NUMA)},
	}
}

// mostAsked is more than any machine has of anything: Linux knows 8192 CPUs at
// most on x86 (arch/x86/Kconfig, NR_CPUS), and 1024 NUMA nodes.
const mostAsked = 1 << 16

// words checks what is shared, from near to far.
func (o *Options) words() []rule {
	all := []rule{
		{!slices.Contains([]string{PCIe, NUMA, Socket}, o.Align), fmt.Sprintf("align %q: want %s, %s or %s", o.Align, PCIe, NUMA, Socket)},
		{len(o.Fallback) > 0 && !o.paired(), "a fallback is for NICs away from their GPUs: want GPUs and NICs with it"},
	}
	last := o.Align
	for _, f := range o.Fallback {
		farther := fartherThan(last)
		all = append(all, rule{!slices.Contains(farther, f), fmt.Sprintf("fallback %q after %s: want what is farther, of %s", f, last, strings.Join(levels[1:], ", "))})
		last = f
	}
	return all
}

func (o *Options) interfaces() []rule {
	return []rule{
		{(o.InterfacePrefix != "" || o.MTU > 0) && o.NICs == 0, "an interface's name and MTU are for NICs: want NICs with them"},
		{len(o.InterfacePrefix) > 12, fmt.Sprintf("interface prefix %q: want 12 characters at most, an interface's name has 15", o.InterfacePrefix)},
		{o.WithoutRDMA && o.NICs == 0, "NICs without RDMA will do, and the claim has no NICs: want NICs with it"},
		{o.GPUProduct != "" && o.GPUs == 0, "a product of GPUs is for GPUs: want GPUs with it"},
		{len(o.GPUProduct) > resourceapi.DeviceAttributeMaxValueLength, fmt.Sprintf("GPU product %q: want %d characters at most, no driver can publish more", o.GPUProduct, resourceapi.DeviceAttributeMaxValueLength)},
	}
}

// paired says whether there are both GPUs and NICs.
func (o *Options) paired() bool { return o.GPUs > 0 && o.NICs > 0 }

// parts is how many equal parts the claim has.
func (o *Options) parts() int { return max(1, o.NUMANodes, o.Sockets) }
