// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
)

func newLintCommand() *cobra.Command {
	o := options{}
	cmd := &cobra.Command{
		Use:   "lint (-f FILE... | claim/NAME | template/NAME | class/NAME)...",
		Short: "Check the parameters and selectors of claims",
		Long: `Check ResourceClaims, ResourceClaimTemplates and DeviceClasses of any version of
the API, the pods that name them, HostPolicies and NetworkAddressPools: the parameters of dra.net and dra.cpu by the
drivers' own code, each layer by itself and merged for each request, those of NVIDIA's
GPU driver (gpu.nvidia.com) by that driver's rules, and the selectors.

An error will not work: the driver would refuse it, or the selector does not
compile. A warning may not work: a selector that reads an attribute which a
device may lack, an attribute that no driver of ours publishes, a request that
takes more than it seems to. A note says what the shipped claim policy warns of, or
refuses where it is set to. The exit code is 1 when there is an error.`,
		Example: `  # files and folders; no cluster is read
  {{program}} claim lint -f claim.yaml -f classes/

  # what a chart or a kustomization makes
  kubectl kustomize examples/tpu-v6e-multi-nic/manifests | {{program}} claim lint -f -

  # what is in the cluster, with the device classes it names
  {{program}} claim lint claim/aligned-resource-claim template/rdma-net -n training

  # for a program
  {{program}} claim lint -f manifests/ -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			in, _, err := o.read(cmd.Context(), args, cmd.InOrStdin())
			if err != nil {
				return err
			}
			r := lint(in)
			if o.output == "text" {
				err = r.text(cmd.OutOrStdout())
			} else {
				err = cmdutil.Encode(cmd.OutOrStdout(), o.output, r)
			}
			if err == nil && r.Errors > 0 {
				return cmdutil.ErrReported
			}
			return err
		},
	}
	o.addTo(cmd)
	return cmd
}

// lint checks all objects.
func lint(in *inputs) *report {
	r := &report{Findings: []finding{}}
	for _, o := range in.objects {
		for _, e := range o.unreadable {
			r.add(o, severityError, e)
		}
		switch {
		case o.class != nil:
			l := linter{in: in, o: o, report: r}
			l.class()
		case o.claim != nil:
			l := linter{in: in, o: o, report: r}
			l.claim()
		case o.pool != nil:
			linter{in: in, o: o, report: r}.addressPool()
		case o.policy != nil:
			linter{in: in, o: o, report: r}.hostPolicy()
		case len(o.pods)+len(o.networks) > 0:
			l := linter{in: in, o: o, report: r}
			l.podSpecs()
			l.networks()
		case len(o.unreadable) == 0:
			continue
		}
		r.Checked++
	}
	return r
}

// linter checks one object.
type linter struct {
	in     *inputs
	o      *object
	report *report
}

func (l linter) error(e *field.Error)   { l.report.add(l.o, severityError, e) }
func (l linter) warning(e *field.Error) { l.report.add(l.o, severityWarning, e) }
func (l linter) note(e *field.Error)    { l.report.add(l.o, severityNote, e) }
