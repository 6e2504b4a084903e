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

	"plumbline.dev/plumbline/internal/claimgen"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// newOptions are the flags of new.
type newOptions struct {
	claimgen.Options
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
and CPUs that sit together. No cluster is asked.

--align pcie makes pairs of GPUs and NICs, each below one PCIe root; with twice as
many GPUs as NICs, or the other way round, each pair is three devices, and so on.
--align numa takes all devices from one NUMA node, in any pairs, and --align socket
from one socket, which may have several NUMA nodes. CPUs are on the NUMA node (with
--align socket, the socket) of their GPUs, or of the NICs where there are no GPUs.

--fallback lets the scheduler take a NIC farther away where none is near: from the
same NUMA node, from the same socket, or from anywhere. It tries what is near first;
several fallbacks are tried in their order, and a GPU that has a nearer NIC comes
before one that has not.

Sockets are compared by dra.cpu/socketID. Plumbline's drivers publish it for NICs,
GPUs and CPUs, NVIDIA's own GPU driver and DRANET do not: no device of theirs can be
in a claim that compares sockets.

A claim of more devices than one NUMA node has wants --numa-nodes, or --sockets with
--align socket: it is cut in so many equal parts, each in one place. Beyond the
API's 32 devices a claim, the error says how to split it.`,
		Example: `  # four GPUs, each with a NIC of its PCIe root, and 16 CPUs of their NUMA node
  {{program}} claim new training --gpus 4 --nics 4 --cpus 16 --align pcie --template

  # NICs of the same NUMA node will do where no root has one left
  {{program}} claim new training --gpus 4 --nics 4 --cpus 16 --fallback numa --template

  # four GPUs of a socket, where a NUMA node has fewer
  {{program}} claim new training --gpus 4 --nics 4 --cpus 16 --align socket

  # a NIC of the root, else of the NUMA node, else of the socket, and none of the other
  {{program}} claim new pair --gpus 1 --nics 1 --fallback numa,socket

  # a whole machine of two NUMA nodes
  {{program}} claim new whole --gpus 8 --nics 8 --cpus 64 --numa-nodes 2

  # interfaces called rdma0 and rdma1 in the pod
  {{program}} claim new pair --gpus 2 --nics 2 --interface-prefix rdma --mtu 8896

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
			return o.run(cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.GPUs, "gpus", 0, "GPUs of the claim")
	flags.IntVar(&o.NICs, "nics", 0, "NICs of the claim")
	flags.IntVar(&o.CPUs, "cpus", 0, "CPUs of the claim")
	flags.StringVar(&o.Align, "align", claimgen.PCIe, "what devices share: pcie, numa or socket")
	flags.StringSliceVar(&o.Fallback, "fallback", nil, "what NICs may share with their GPUs where that cannot be had: numa, socket or any, or several of them, the nearest first")
	flags.IntVar(&o.NUMANodes, "numa-nodes", 1, "equal parts of the claim, each on one NUMA node")
	flags.IntVar(&o.Sockets, "sockets", 1, "equal parts of the claim, each on one socket, with --align socket")
	flags.BoolVar(&o.WithoutRDMA, "any-nic", false, "take NICs without RDMA too")
	flags.StringVar(&o.GPUProduct, "gpu-product", "", "GPUs of this product, such as \"NVIDIA H200\"")
	flags.StringVar(&o.InterfacePrefix, "interface-prefix", "", "name the interfaces in the pod: rdma makes rdma0, rdma1 and so on")
	flags.IntVar(&o.MTU, "mtu", 0, "MTU of the interfaces")
	flags.BoolVar(&o.template, "template", false, "write a ResourceClaimTemplate, of which each pod gets a claim of its own")
	flags.StringVarP(&o.namespace, "namespace", "n", "", "namespace of the claim")
	flags.StringVarP(&o.output, "output", "o", "yaml", "output format: yaml or json")
	return cmd
}

func (o *newOptions) run(out, errOut io.Writer) error {
	if o.output != "yaml" && o.output != "json" {
		return cmdutil.Usagef("output format %q: want yaml or json", o.output)
	}
	if wrong := validation.IsDNS1123Subdomain(o.name); len(wrong) > 0 {
		return cmdutil.Usagef("name %q: %s", o.name, strings.Join(wrong, "; "))
	}
	if wrong := validation.IsDNS1123Label(o.namespace); o.namespace != "" && len(wrong) > 0 {
		return cmdutil.Usagef("namespace %q: %s", o.namespace, strings.Join(wrong, "; "))
	}
	spec, err := claimgen.Spec(o.Options)
	if err != nil {
		return cmdutil.UsageError{Err: err}
	}
	warning := append(foreign(spec), o.tedious()...)
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

// foreign says of a claim that compares sockets whose devices it is not for.
func foreign(spec *resourceapi.ResourceClaimSpec) []string {
	if !slices.ContainsFunc(spec.Devices.Constraints, func(c resourceapi.DeviceConstraint) bool { return *c.MatchAttribute == slicecodec.AttrSocket }) {
		return nil
	}
	return []string{
		"It compares " + slicecodec.AttrSocket + ", which plumbline's drivers publish for NICs, GPUs and CPUs.",
		"NVIDIA's own GPU driver and DRANET do not, so none of their devices can be in it: with",
		"those use --align numa. That spans the nearest NUMA nodes of a socket where the drivers",
		"publish " + slicecodec.AttrNUMANode + " as a list (feature gate DRAListTypeAttributes).",
	}
}

// tedious says of a claim that the scheduler's search for it, which tries each
// alternative of each pair with those of all others, can take longer than it has.
func (o *newOptions) tedious() []string {
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
