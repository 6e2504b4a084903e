// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package generate is the command that writes claims. What it writes is
// claimgen's to decide; here are its flags and the form of the manifest.
package generate

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/claimgen"
	"plumbline.dev/plumbline/internal/cli/claim/fit"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// newOptions are the flags of new.
type newOptions struct {
	claimgen.Options
	// where is the claim to fit, in as few parts as it takes unless whole.
	where fit.Options
	whole bool
	// ownClass says that the user named the class of the GPUs.
	ownClass        bool
	name, namespace string
	template        bool
	output          string
}

// NewCommand returns claim new.
func NewCommand() *cobra.Command {
	o := newOptions{}
	cmd := &cobra.Command{
		Use:   "new [NAME]",
		Short: "Write a claim for aligned devices",
		Long: `Write a ResourceClaim, or with --template a ResourceClaimTemplate, for GPUs, NICs
and CPUs that sit together, and say where it fits: on which of the shipped machines,
or on those of --machine, on the nodes whose ResourceSlices are in the files of -f, or
on those of the cluster (--live, --node, -l, --context and the like; without one of
them no cluster is read). The scheduler's own allocator tries it.

The claim is written whether it fits or not, and the exit code does not depend on it:
that of claim simulate does. What is said goes to the standard error, with the flags
that would help.

--align pcie makes pairs of GPUs and NICs, each below one PCIe root; with twice as
many GPUs as NICs, or the other way round, each pair is three devices, and so on.
--align numa takes all devices from one NUMA node, in any pairs, and --align socket
from one socket, which may have several NUMA nodes. CPUs are on the NUMA node (with
--align socket, the socket) of their GPUs, or of the NICs where there are no GPUs. With
--align pcie they are held to the NICs below the GPUs' roots, which tell their NUMA
node whichever driver the GPUs have.

--fallback lets the scheduler take a NIC farther away where none is near: from the
same NUMA node, from the same socket, or from anywhere. It tries what is near first;
several fallbacks are tried in their order, and a GPU that has a nearer NIC comes
before one that has not.

Sockets are compared by dra.cpu/socketID. Plumbline's drivers publish it for NICs,
GPUs and CPUs, NVIDIA's own GPU driver and DRANET do not: no device of theirs can be
in a claim that compares sockets.

A claim of more devices than one NUMA node has is cut in equal parts, each on one
NUMA node, or on one socket with --align socket: in as few as it fits in, or in as
many as --numa-nodes or --sockets says. Beyond the API's 32 devices a claim, the error
says how to split it.

--shared takes a share of each NIC (class shared.dra.net), of those that a HostPolicy offers:
the pod gets a link of its own on it, and other pods have theirs. --bandwidth says how much
of each NIC's the claim takes, which the scheduler counts and nothing enforces. --pool gives
the interfaces addresses of a NetworkAddressPool, of shared NICs and of whole ones.

--gpu-class names the DeviceClass of the GPUs, such as gpu.amd.com, gpu.intel.com,
mig.nvidia.com or one of your own. Constraints then compare what the drivers of that
class tell: AMD's and Intel's have a PCIe root, and no NUMA node that NICs and CPUs
have by the same name.

--mig-profile takes MIG devices of a profile in place of whole GPUs: --gpus says how
many, and --mig-same-gpu that all are of one GPU. They have the PCIe root of their GPU,
so that NICs and CPUs are aligned with them as with a GPU.

--gpu-share takes a part of each GPU where NVIDIA's driver shares them among claims
(--consumable-shares): shares=2 so many of its shares, memory=20Gi so much of its memory.
time-slicing takes whole GPUs, which the containers and pods that name the claim share by
time; time-slicing=Long says how long a slice is.`,
		Example: `  # four GPUs, each with a NIC of its PCIe root, and 16 CPUs of their NUMA node
  {{program}} claim new training --gpus 4 --nics 4 --cpus 16 --align pcie --template

  # NICs of the same NUMA node will do where no root has one left
  {{program}} claim new training --gpus 4 --nics 4 --cpus 16 --fallback numa --template

  # four GPUs of a socket, where a NUMA node has fewer
  {{program}} claim new training --gpus 4 --nics 4 --cpus 16 --align socket

  # a NIC of the root, else of the NUMA node, else of the socket, and none of the other
  {{program}} claim new pair --gpus 1 --nics 1 --fallback numa,socket

  # a whole machine, in as few parts as it takes, or in two
  {{program}} claim new whole --gpus 8 --nics 8 --cpus 64
  {{program}} claim new whole --gpus 8 --nics 8 --cpus 64 --numa-nodes 2

  # does it fit this machine, the nodes of this cluster, those of these slices?
  {{program}} claim new pair --gpus 1 --nics 1 --cpus 4 --machine azure-nd96isr-h100-v5
  {{program}} claim new pair --gpus 1 --nics 1 --cpus 4 -l pool=h200
  kubectl get resourceslices -o yaml | {{program}} claim new pair --gpus 1 --nics 1 -f -

  # GPUs of AMD
  {{program}} claim new pair --gpus 1 --nics 1 --cpus 4 --gpu-class gpu.amd.com

  # two MIG devices of one GPU, one with a NIC, a share of a GPU, a GPU for several pods
  {{program}} claim new parts --gpus 2 --mig-profile 1g.10gb --mig-same-gpu
  {{program}} claim new part --gpus 1 --mig-profile 3g.71gb --nics 1
  {{program}} claim new share --gpus 1 --gpu-share memory=20Gi --template
  {{program}} claim new slices --gpus 1 --gpu-share time-slicing

  # interfaces called rdma0 and rdma1 in the pod
  {{program}} claim new pair --gpus 2 --nics 2 --interface-prefix rdma --mtu 8896

  # a share of a NIC that other pods have too, 40 Gbit/s of it, with an address of a pool
  {{program}} claim new storage --nics 1 --shared --bandwidth 40G --pool fabric --template

  # NICs that are virtual functions, with a VLAN that the physical one sets
  {{program}} claim new functions --nics 2 --vf vlan=100,trust=true

  # a pair of which NCCL and UCX are told
  {{program}} claim new pair --gpus 1 --nics 1 --environment nccl

  # will it fit, and how often?
  {{program}} claim new t --gpus 4 --nics 4 | {{program}} claim simulate -f - --machine a3-ultragpu-8g=2`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cmdutil.Usagef("unexpected argument %q: want one name", args[1])
			}
			o.name = "aligned"
			if len(args) == 1 {
				o.name = args[0]
			}
			o.ownClass = cmd.Flags().Changed("gpu-class")
			o.whole = cmd.Flags().Changed("numa-nodes") || cmd.Flags().Changed("sockets")
			return o.run(cmd)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.GPUs, "gpus", 0, "GPUs of the claim")
	flags.IntVar(&o.NICs, "nics", 0, "NICs of the claim")
	flags.IntVar(&o.CPUs, "cpus", 0, "CPUs of the claim")
	flags.StringVar(&o.Align, "align", claimgen.PCIe, "what devices share: pcie, numa or socket")
	flags.StringSliceVar(&o.Fallback, "fallback", nil, "what NICs may share with their GPUs where that cannot be had: numa, socket or any, or several of them, the nearest first")
	flags.IntVar(&o.NUMANodes, "numa-nodes", 0, "equal parts of the claim, each on one NUMA node (default: as few as it fits in)")
	flags.IntVar(&o.Sockets, "sockets", 0, "equal parts of the claim, each on one socket, with --align socket (default: as few as it fits in)")
	flags.BoolVar(&o.WithoutRDMA, "any-nic", false, "take NICs without RDMA too")
	flags.BoolVar(&o.Shared, "shared", false, "take a share of each NIC, which other pods have too")
	flags.StringVar(&o.Bandwidth, "bandwidth", "", "take so many bits per second of each shared NIC, such as 40G")
	flags.StringVar(&o.Pool, "pool", "", "take the interfaces' addresses from this NetworkAddressPool")
	flags.StringVar(&o.GPUClass, "gpu-class", slicecodec.DriverGPU, "DeviceClass of the GPUs")
	flags.StringVar(&o.GPUProduct, "gpu-product", "", "GPUs of this product, such as \"NVIDIA H200\"")
	flags.StringVar(&o.MIGProfile, "mig-profile", "", "take MIG devices of this profile, such as 1g.10gb, of --gpu-class mig.nvidia.com unless that names another")
	flags.BoolVar(&o.SameGPU, "mig-same-gpu", false, "take all MIG devices from one GPU")
	flags.StringVar(&o.GPUShare, "gpu-share", "", "take a part of each GPU: shares[=N], memory=SIZE, or time-slicing[=INTERVAL]")
	flags.StringVar(&o.InterfacePrefix, "interface-prefix", "", "name the interfaces in the pod: rdma makes rdma0, rdma1 and so on")
	flags.IntVar(&o.MTU, "mtu", 0, "MTU of the interfaces")
	flags.StringToStringVar(&o.VF, "vf", nil, "take virtual functions, and set of them what parameters have as interface.vf: vlan=100,trust=true")
	flags.StringVar(&o.Environment, "environment", "", "set the variables of a library in the containers: nccl")
	flags.BoolVar(&o.template, "template", false, "write a ResourceClaimTemplate, of which each pod gets a claim of its own")
	flags.StringVarP(&o.namespace, "namespace", "n", "", "namespace of the claim")
	flags.StringVarP(&o.output, "output", "o", "yaml", "output format: yaml or json")
	o.where.AddFlags(flags)
	return cmd
}

func (o *newOptions) run(cmd *cobra.Command) error {
	if err := o.check(); err != nil {
		return err
	}
	if !o.ownClass {
		o.GPUClass = "" // claimgen's to choose
	}
	if _, err := claimgen.Spec(o.Options); err != nil {
		return cmdutil.UsageError{Err: err}
	}
	ctx, errOut := cmd.Context(), cmd.ErrOrStderr()
	candidates, err := o.where.Open(ctx, cmd.InOrStdin(), errOut)
	if err != nil {
		return err
	}
	partitioned := false
	if !o.whole {
		if o.Options, err = candidates.Partition(ctx, o.Options); err != nil {
			return err
		}
		partitioned = max(o.NUMANodes, o.Sockets) > 1
	}
	if err := o.write(cmd.OutOrStdout(), errOut); err != nil {
		return err
	}
	return candidates.Report(ctx, o.Options, partitioned, errOut)
}

// check refuses what claimgen does not know of.
func (o *newOptions) check() error {
	if o.output != "yaml" && o.output != "json" {
		return cmdutil.Usagef("--output %q: want yaml or json", o.output)
	}
	if wrong := validation.IsDNS1123Subdomain(o.name); len(wrong) > 0 {
		return cmdutil.Usagef("name %q: %s", o.name, strings.Join(wrong, "; "))
	}
	if wrong := validation.IsDNS1123Label(o.namespace); o.namespace != "" && len(wrong) > 0 {
		return cmdutil.Usagef("--namespace %q: %s", o.namespace, strings.Join(wrong, "; "))
	}
	// Empty is the default to claimgen, and no class to who wrote it.
	if wrong := validation.IsDNS1123Subdomain(o.GPUClass); len(wrong) > 0 {
		return cmdutil.Usagef("--gpu-class %q: %s", o.GPUClass, strings.Join(wrong, "; "))
	}
	return nil
}

func (o *newOptions) write(out, errOut io.Writer) error {
	spec, err := claimgen.Spec(o.Options)
	if err != nil {
		return cmdutil.UsageError{Err: err}
	}
	warning := slices.Concat(foreign(spec), o.since(spec), o.sharing(), o.sharedNICs(), o.longSearch())
	object, err := o.object(spec)
	if err != nil {
		return err
	}
	if o.output == "json" {
		for _, line := range warning {
			fmt.Fprintln(errOut, line)
		}
		return cmdutil.Encode(out, o.output, object)
	}
	for _, line := range slices.Concat(o.usage(), warning) {
		if _, err := fmt.Fprintln(out, "# "+line); err != nil {
			return fmt.Errorf("write YAML: %w", err)
		}
	}
	return printYAML(out, object)
}

// usage says how a pod asks for it.
func (o *newOptions) usage() []string {
	field := "resourceClaimName"
	if o.template {
		field = "resourceClaimTemplateName"
	}
	return []string{
		fmt.Sprintf("In the pod: spec.resourceClaims: [{name: devices, %s: %s}],", field, o.name),
		"and in its container: resources.claims: [{name: devices}].",
	}
}

// compares says whether a claim compares an attribute of devices of some of its
// requests.
func compares(spec *resourceapi.ResourceClaimSpec, attribute resourceapi.FullyQualifiedName, request string) bool {
	return slices.ContainsFunc(spec.Devices.Constraints, func(c resourceapi.DeviceConstraint) bool {
		return ptr.Deref(c.MatchAttribute, "") == attribute && slices.ContainsFunc(c.Requests, func(r string) bool { return strings.HasPrefix(r, request) })
	})
}

// since says of a claim that compares the NUMA node of GPUs which of them publish it.
func (o *newOptions) since(spec *resourceapi.ResourceClaimSpec) []string {
	if !compares(spec, slicecodec.AttrNUMANode, "gpu-") {
		return nil
	}
	who := "which NVIDIA's own driver publishes from v0.5.0 on."
	if o.Class() != slicecodec.DriverGPU {
		who = "which not all drivers publish: see the ResourceSlices."
	}
	return []string{"It compares " + slicecodec.AttrNUMANode + " of GPUs,", who}
}

// foreign says of a claim that compares sockets whose devices it is not for.
func foreign(spec *resourceapi.ResourceClaimSpec) []string {
	if !compares(spec, slicecodec.AttrSocket, "") {
		return nil
	}
	return []string{
		"It compares " + slicecodec.AttrSocket + ", which plumbline's drivers publish for NICs, GPUs and CPUs.",
		"NVIDIA's own GPU driver and DRANET do not, so none of their devices can be in it: with",
		"those use --align numa. That spans the nearest NUMA nodes of a socket where the drivers",
		"publish " + slicecodec.AttrNUMANode + " as a list (feature gate DRAListTypeAttributes).",
	}
}

// longSearch says of a claim that the scheduler's search for it, which tries each
// alternative of each pair with those of all others, can take longer than it has.
func (o *newOptions) longSearch() []string {
	const mostPairs, mostPairsOfSteps = 3, 2
	pairs, steps := min(o.GPUs, o.NICs), len(o.Fallback)
	if o.Align != claimgen.PCIe || steps == 0 || pairs <= mostPairsOfSteps || steps == 1 && pairs <= mostPairs {
		return nil
	}
	return []string{
		"On a node that has no NICs for the last of its pairs, the scheduler may look through",
		"their alternatives for longer than its 10 s, which fails the pod's attempt on every",
		"node. A claim of fewer pairs or steps, or by --align numa, is looked through at once.",
	}
}

// sharedNICs says of a claim for shares of NICs what it gets.
func (o *newOptions) sharedNICs() []string {
	if !o.Shared {
		return nil
	}
	lines := []string{"It takes a share of each NIC, of those that a HostPolicy offers: a link of the pod's own."}
	if o.Bandwidth != "" {
		lines = append(lines, "The scheduler counts the bandwidth, and nothing enforces it.")
	}
	return lines
}

// sharing says what the driver wants for shared GPUs, and who shares them.
func (o *newOptions) sharing() []string {
	if o.TakesShares() {
		return []string{
			"It takes a part of each GPU, as NVIDIA's driver publishes them from v0.5.0 on where its",
			"feature gate ConsumableShares (alpha) and --consumable-shares are set. Nothing holds a",
			"container to its part.",
		}
	}
	if o.GPUShare == "" {
		return nil
	}
	who := "The containers and pods that name this claim share its GPUs; no other claim has them."
	if o.template {
		who = "The containers of a pod share its GPUs; each pod has others. Pods share those of a ResourceClaim."
	}
	return []string{who, "NVIDIA's driver wants its feature gate TimeSlicingSettings (alpha) for time slices."}
}
