// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package generate is the command that writes claims. What it writes is
// claimgen's to decide; here are its flags and the form of the manifest.
package generate

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"plumbline.dev/plumbline/internal/claimgen"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
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
--align numa takes all devices from one NUMA node, in any pairs. CPUs are on the
NUMA node of their GPUs, or of the NICs where there are no GPUs.

--fallback lets the scheduler take a NIC farther away where none is near: from the
same NUMA node, or from anywhere. It tries what is near first.

A claim of more devices than one NUMA node has wants --numa-nodes: it is cut in so
many equal parts, each on one NUMA node. Beyond the API's 32 devices a claim, the
error says how to split it.`,
		Example: `  # four GPUs, each with a NIC of its PCIe root, and 16 CPUs of their NUMA node
  {{program}} claim new training --gpus 4 --nics 4 --cpus 16 --align pcie --template

  # NICs of the same NUMA node will do where no root has one left
  {{program}} claim new training --gpus 4 --nics 4 --cpus 16 --fallback numa --template

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
			return o.run(cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.GPUs, "gpus", 0, "GPUs of the claim")
	flags.IntVar(&o.NICs, "nics", 0, "NICs of the claim")
	flags.IntVar(&o.CPUs, "cpus", 0, "CPUs of the claim")
	flags.StringVar(&o.Align, "align", claimgen.PCIe, "what devices share: pcie or numa")
	flags.StringVar(&o.Fallback, "fallback", "", "what NICs may share with their GPUs where that cannot be had: numa or any")
	flags.IntVar(&o.NUMANodes, "numa-nodes", 1, "equal parts of the claim, each on one NUMA node")
	flags.BoolVar(&o.WithoutRDMA, "any-nic", false, "take NICs without RDMA too")
	flags.StringVar(&o.GPUProduct, "gpu-product", "", "GPUs of this product, such as \"NVIDIA H200\"")
	flags.StringVar(&o.InterfacePrefix, "interface-prefix", "", "name the interfaces in the pod: rdma makes rdma0, rdma1 and so on")
	flags.IntVar(&o.MTU, "mtu", 0, "MTU of the interfaces")
	flags.BoolVar(&o.template, "template", false, "write a ResourceClaimTemplate, of which each pod gets a claim of its own")
	flags.StringVarP(&o.namespace, "namespace", "n", "", "namespace of the claim")
	flags.StringVarP(&o.output, "output", "o", "yaml", "output format: yaml or json")
	return cmd
}

func (o *newOptions) run(out io.Writer) error {
	if o.output != "yaml" && o.output != "json" {
		return cmdutil.Usagef("output format %q: want yaml or json", o.output)
	}
	for _, n := range []struct{ what, value string }{{"name", o.name}, {"namespace", o.namespace}} {
		if wrong := validation.IsDNS1123Subdomain(n.value); n.value != "" && len(wrong) > 0 {
			return cmdutil.Usagef("%s %q: %s", n.what, n.value, strings.Join(wrong, "; "))
		}
	}
	spec, err := claimgen.Spec(o.Options)
	if err != nil {
		return cmdutil.UsageError{Err: err}
	}
	object, err := o.object(spec)
	if err != nil {
		return err
	}
	if o.output == "yaml" {
		if _, err := fmt.Fprint(out, o.comment()); err != nil {
			return err
		}
	}
	return cmdutil.Encode(out, o.output, object)
}

// object is the claim or template without the fields that only the API server
// sets.
func (o *newOptions) object(spec *resourceapi.ResourceClaimSpec) (map[string]any, error) {
	meta := metav1.ObjectMeta{Name: o.name, Namespace: o.namespace}
	var typed runtime.Object = &resourceapi.ResourceClaim{ObjectMeta: meta, Spec: *spec}
	kind := "ResourceClaim"
	if o.template {
		kind = "ResourceClaimTemplate"
		typed = &resourceapi.ResourceClaimTemplate{ObjectMeta: meta, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: *spec}}
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", kind, err)
	}
	object["apiVersion"], object["kind"] = resourceapi.SchemeGroupVersion.String(), kind
	delete(object, "status")
	dropNull(object)
	if inner, ok := object["spec"].(map[string]any); ok && o.template {
		delete(inner, "metadata")
	}
	return object, nil
}

// dropNull leaves out fields that are null, such as creationTimestamp.
func dropNull(object map[string]any) {
	for name, v := range object {
		if v == nil {
			delete(object, name)
		} else if below, ok := v.(map[string]any); ok {
			dropNull(below)
		}
	}
}

// comment says how a pod asks for it.
func (o *newOptions) comment() string {
	field := "resourceClaimName"
	if o.template {
		field = "resourceClaimTemplateName"
	}
	return fmt.Sprintf("# In the pod: spec.resourceClaims: [{name: devices, %s: %s}],\n# and in its container: resources.claims: [{name: devices}].\n", field, o.name)
}
