// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claimgen

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// Options are what a claim is to have.
type Options struct {
	// GPUs, NICs and CPUs are those of the whole claim; zero leaves them out.
	GPUs, NICs, CPUs int
	// Align is PCIe for pairs of GPUs and NICs below one PCIe root each, or NUMA
	// or Socket for devices of one NUMA node or socket. CPUs are where their GPUs
	// are: on their socket with Socket, else on their NUMA node, which is that of
	// the NICs that share the GPUs' roots.
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
	// Shared takes a share of each NIC, which stays on the host for others too: a link of
	// the pod's own.
	Shared bool
	// Bandwidth is what is taken of each shared NIC in bit/s, such as "40G"; empty for none.
	Bandwidth string
	// Pool is the pool that the interfaces' addresses are from; empty for none.
	Pool string
	// GPUClass is the device class of the GPUs; empty for NVIDIA's.
	GPUClass string
	// GPUProduct is the product's name, such as "NVIDIA H200"; empty for any.
	GPUProduct string
	// MIGProfile makes the GPUs MIG devices of a profile, such as "1g.10gb"; empty for
	// whole GPUs, or MIG devices of any profile where the class is of those.
	MIGProfile string
	// SameGPU wants all MIG devices of the claim to be of one GPU.
	SameGPU bool
	// GPUShare is how much of each GPU, or how it is shared: Shares or "shares=2" of its
	// shares, "memory=20Gi" of its memory, TimeSlicing or "time-slicing=Long" by time;
	// empty for all of it.
	GPUShare string
	// InterfacePrefix names the interfaces in the pod: "rdma" makes rdma0,
	// rdma1 and so on. Empty keeps their names.
	InterfacePrefix string
	// MTU is set on the interfaces; zero keeps theirs.
	MTU int
	// VF is what the physical functions set of the NICs, as fields of interface.vf: "vlan" is
	// "100". The NICs are then virtual functions; without it they may be any.
	VF map[string]string
	// Environment is what the NICs' containers are told in a library's words, such as
	// nccl; empty for nothing.
	Environment string
}

// rule is something that is wrong with options, and what would be right.
type rule struct {
	wrong bool
	text  string
}

// check refuses what makes no claim, and says what would.
func (o *Options) check() error {
	for _, r := range slices.Concat(o.rangeRules(), o.alignmentRules(), o.countRules(), o.interfaceRules(), o.sharedRules(), o.gpuRules(), o.migRules(), o.shareRules()) {
		if r.wrong {
			return errors.New(r.text)
		}
	}
	return nil
}

// mostAsked is more than any machine has of anything: Linux knows 8192 CPUs at
// most on x86 (arch/x86/Kconfig, NR_CPUS), and 1024 NUMA nodes.
const mostAsked = 1 << 16

// rangeRules checks each number by itself.
func (o *Options) rangeRules() []rule {
	var all []rule
	for _, f := range []struct {
		name string
		n    int
	}{{"--gpus", o.GPUs}, {"--nics", o.NICs}, {"--cpus", o.CPUs}, {"--numa-nodes", o.NUMANodes}, {"--sockets", o.Sockets}, {"--mtu", o.MTU}} {
		all = append(all,
			rule{f.n < 0, fmt.Sprintf("%s %d: want 0 or more", f.name, f.n)},
			rule{f.n > mostAsked, fmt.Sprintf("%s %d: beyond any machine's: want %d at most", f.name, f.n, mostAsked)})
	}
	return all
}

// countRules checks what the numbers come to together.
func (o *Options) countRules() []rule {
	parts := o.parts()
	flag := fmt.Sprintf("--numa-nodes %d", o.NUMANodes)
	if o.Align == Socket {
		flag = fmt.Sprintf("--sockets %d", o.Sockets)
	}
	return []rule{
		{o.GPUs+o.NICs+o.CPUs == 0, "the claim is for nothing: want --gpus, --nics or --cpus, 1 or more"},
		{o.NUMANodes > 1 && o.Align == Socket, fmt.Sprintf("--numa-nodes %d with --align %s: want --sockets instead, or --align %s", o.NUMANodes, Socket, NUMA)},
		{o.Sockets > 1 && o.Align != Socket, fmt.Sprintf("--sockets %d with --align %s: want --align %s, or --numa-nodes instead", o.Sockets, o.Align, Socket)},
		{o.GPUs%parts+o.NICs%parts+o.CPUs%parts > 0, fmt.Sprintf("%s does not divide %d GPUs, %d NICs and %d CPUs: want numbers that it does", flag, o.GPUs, o.NICs, o.CPUs)},
		{o.Align == PCIe && o.paired() && o.GPUs%o.NICs > 0 && o.NICs%o.GPUs > 0, fmt.Sprintf(
			"--gpus %d and --nics %d make no equal shares of PCIe roots: want one number to divide the other, or --align %s", o.GPUs, o.NICs, NUMA)},
	}
}

// alignmentRules checks what is shared, from near to far.
func (o *Options) alignmentRules() []rule {
	all := []rule{
		{!slices.Contains([]string{PCIe, NUMA, Socket}, o.Align), fmt.Sprintf("--align %q: want %s, %s or %s", o.Align, PCIe, NUMA, Socket)},
		{len(o.Fallback) > 0 && !o.paired(), fmt.Sprintf("--fallback %s is for NICs away from their GPUs: want --gpus and --nics with it", strings.Join(o.Fallback, ","))},
	}
	last := o.Align
	for _, f := range o.Fallback {
		farther := fartherThan(last)
		want := "nothing after it"
		if len(farther) > 0 {
			want = "what is farther: " + strings.Join(farther, ", ")
		}
		all = append(all, rule{!slices.Contains(farther, f), fmt.Sprintf("--fallback %q after %s: want %s", f, last, want)})
		last = f
	}
	return all
}

func (o *Options) interfaceRules() []rule {
	return []rule{
		{o.InterfacePrefix != "" && o.NICs == 0, fmt.Sprintf("--interface-prefix %q is for NICs: want --nics with it", o.InterfacePrefix)},
		{o.MTU > 0 && o.NICs == 0, fmt.Sprintf("--mtu %d is for NICs: want --nics with it", o.MTU)},
		{o.Environment != "" && o.NICs == 0, fmt.Sprintf("--environment %q is for NICs: want --nics with it", o.Environment)},
		{len(o.VF) > 0 && o.NICs == 0, fmt.Sprintf("--vf %s is for NICs: want --nics with it", o.vf())},
		{len(o.InterfacePrefix) > 12, fmt.Sprintf("--interface-prefix %q: want 12 characters at most, an interface's name has 15", o.InterfacePrefix)},
		{o.WithoutRDMA && o.NICs == 0, "--any-nic is for NICs: want --nics with it"},
	}
}

// gpuRules checks the options for GPUs.
func (o *Options) gpuRules() []rule {
	class, wrong := o.Class(), validation.IsDNS1123Subdomain(o.Class())
	all := []rule{
		{len(wrong) > 0, fmt.Sprintf("--gpu-class %q: %s", class, strings.Join(wrong, "; "))},
		{o.GPUClass != "" && class != slicecodec.DriverGPU && o.GPUs == 0, fmt.Sprintf("--gpu-class %q is for GPUs: want --gpus with it", class)},
		{o.GPUProduct != "" && o.GPUs == 0, fmt.Sprintf("--gpu-product %q is for GPUs: want --gpus with it", o.GPUProduct)},
		{len(o.GPUProduct) > resourceapi.DeviceAttributeMaxValueLength, fmt.Sprintf("--gpu-product %q: want %d characters at most, no driver can publish more", o.GPUProduct, resourceapi.DeviceAttributeMaxValueLength)},
		{o.GPUProduct != "" && o.gpus().product == "", fmt.Sprintf("--gpu-product %q names a product, and none is known of the GPUs of class %s: want one of %s as --gpu-class, or a class that selects the product",
			o.GPUProduct, class, strings.Join(slices.Sorted(maps.Keys(gpuClasses)), ", "))},
		{o.lacking(o.Align), fmt.Sprintf("--align %s compares %s, which GPUs of class %s are not known to have: want --align %s", o.Align, attributes[o.Align], class, strings.Join(o.shared(PCIe, NUMA), " or "))},
		{o.CPUs > 0 && o.NICs == 0 && o.lacking(NUMA), fmt.Sprintf("--cpus %d beside GPUs of class %s, which have no %s: want --nics too, whose NUMA node the CPUs are then on, or the CPUs in a claim of their own", o.CPUs, class, attributes[NUMA])},
	}
	for _, f := range o.Fallback {
		all = append(all, rule{o.lacking(f), fmt.Sprintf("--fallback %s compares %s, which GPUs of class %s are not known to have: want --fallback %s", f, attributes[f], class, strings.Join(o.shared(NUMA, Any), " or "))})
	}
	return all
}

// paired says whether there are both GPUs and NICs.
func (o *Options) paired() bool { return o.GPUs > 0 && o.NICs > 0 }

// parts is how many equal parts the claim has.
func (o *Options) parts() int { return max(1, o.NUMANodes, o.Sockets) }
