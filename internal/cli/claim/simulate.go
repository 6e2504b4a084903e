// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/cli/claim/fit"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/explain"
	"plumbline.dev/plumbline/internal/simulate"
)

// simulateOptions are the flags of simulate.
type simulateOptions struct {
	options
	machines []string
	nodes    []string
	labels   string
	limit    int
	gates    string
}

func newSimulateCommand() *cobra.Command {
	o := simulateOptions{}
	cmd := &cobra.Command{
		Use:   "simulate (-f FILE... | claim/NAME | template/NAME)... [--machine NAME[=COUNT]...]",
		Short: "Say on which nodes claims fit, how many times, and what strands",
		Long: `Fill nodes with claims until no more fit, by the scheduler's own allocator: on
which nodes the claims fit, for how many pods, which devices are left over, which
of those are stranded because their partners are gone, and why there are no more.

With --machine the nodes have the hardware of a shipped machine or of a machine
file, all of them free. Else they are the cluster's, as their
ResourceSlices describe them and with the claims that hold devices now; nothing is
written. Pods in the files are filled in with all their claims and templates; other
claims and templates each by itself. Feature gates are the defaults of the newest
Kubernetes, and --feature-gates says what differs. The exit code is 1 when something
fits nowhere.`,
		Example: `  # how many of these does an A3 Ultra have room for, and four Azure nodes?
  {{program}} claim simulate -f training.yaml --machine a3-ultragpu-8g --machine azure-nd96isr-h100-v5=4

  # on the nodes of this cluster, with what is free on them now
  {{program}} claim simulate -f training.yaml -l pool=h200
  {{program}} claim simulate template/training -n research

  # before writing it to a file
  {{program}} claim new t --gpus 4 --nics 4 | {{program}} claim simulate -f - --machine a3-ultragpu-8g`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.addTo(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&o.machines, "machine", nil, "fill a node with the hardware of a shipped machine or of a machine file; =COUNT for several. May be repeated")
	flags.StringArrayVar(&o.nodes, "node", nil, "fill this node of the cluster. May be repeated")
	flags.StringVarP(&o.labels, "selector", "l", "", "fill the nodes of the cluster that have these labels")
	flags.StringVar(&o.gates, "feature-gates", "", "feature gates of the scheduler that differ from the defaults, such as DRADerivedAttributes=true")
	flags.IntVar(&o.limit, "limit", 1000, "stop at so many pods on a node")
	return cmd
}

func (o *simulateOptions) run(ctx context.Context, args []string, stdin io.Reader, out, errOut io.Writer) error {
	switch {
	case len(o.machines) > 0 && (len(o.nodes) > 0 || o.labels != ""):
		return cmdutil.Usagef("--machine is about hardware, --node and -l about the cluster: want one of them")
	case len(o.nodes) > 0 && o.labels != "":
		return cmdutil.Usagef("--node and -l: want one of them")
	case o.limit < 1:
		return cmdutil.Usagef("--limit %d: want 1 or more", o.limit)
	}
	in, _, err := o.read(ctx, args, stdin)
	if err != nil {
		return err
	}
	if len(in.subjects(in.deviceClasses())) == 0 {
		return cmdutil.Usagef("nothing to simulate: no claim, template, or pod with claims among the objects")
	}
	groups, simulation, err := o.nodeGroups(ctx, in, errOut)
	if err != nil {
		return err
	}
	reports, nowhere, err := fillAll(ctx, in.subjects(simulation.Classes), groups, simulation)
	if err != nil {
		return err
	}
	if o.output == "text" {
		err = simulate.Text(out, reports)
	} else {
		err = cmdutil.Encode(out, o.output, map[string]any{"subjects": reports})
	}
	if err == nil && nowhere {
		return cmdutil.ErrReported
	}
	return err
}

// fillAll fills every node group with every subject by itself. nowhere says that one
// of them fits nowhere.
func fillAll(ctx context.Context, subjects []explain.Subject, groups []simulate.NodeGroup, o simulate.Options) (reports []simulate.Report, nowhere bool, err error) {
	for _, s := range subjects {
		report := simulate.Report{Subject: s.String(), Nodes: []simulate.Node{}}
		for _, g := range groups {
			n, err := simulate.Fill(ctx, g, s, o)
			if err != nil {
				return nil, false, err
			}
			report.Add(n)
		}
		nowhere = nowhere || report.Pods == 0
		reports = append(reports, report)
	}
	return reports, nowhere, nil
}

// subjects are the pods with all their claims and extended resources, then the claims
// and templates that no pod names.
func (in *inputs) subjects(classes map[string]*resourceapi.DeviceClass) []explain.Subject {
	var all []explain.Subject
	named := map[*object]bool{}
	for _, o := range in.objects {
		for i, p := range o.pods {
			s := explain.Subject{Kind: o.kind, Namespace: o.namespace, Name: o.name}
			if i > 0 {
				s.Name = fmt.Sprintf("%s (pod %d)", o.name, i+1)
			}
			for _, c := range p.Spec.ResourceClaims {
				if target := (linter{in: in, o: o}).target(c); target != nil {
					named[target] = true
					s.Claims = append(s.Claims, target.asClaim())
				}
			}
			s.AddExtended(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: s.Name}, Spec: p.Spec}, nil, classes)
			if len(s.Claims) > 0 {
				all = append(all, s)
			}
		}
	}
	for _, o := range in.objects {
		if o.claim != nil && !named[o] {
			all = append(all, explain.Subject{
				Kind: o.kind, Namespace: o.namespace, Name: o.name, Claims: []*resourceapi.ResourceClaim{o.asClaim()},
			})
		}
	}
	return all
}

// asClaim is the claim, or the one that a template would make, with nothing
// allocated.
func (o *object) asClaim() *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: o.name}, Spec: *withDefaults(o.claim)}
}

// withDefaults sets what the API server sets where a manifest says nothing
// (kubernetes/pkg/apis/resource/v1/defaults.go).
func withDefaults(spec *resourceapi.ResourceClaimSpec) *resourceapi.ResourceClaimSpec {
	spec = spec.DeepCopy()
	set := func(mode *resourceapi.DeviceAllocationMode, count *int64, tolerations []resourceapi.DeviceToleration) {
		if *mode == "" {
			*mode = resourceapi.DeviceAllocationModeExactCount
		}
		if *mode == resourceapi.DeviceAllocationModeExactCount && *count == 0 {
			*count = 1
		}
		for i := range tolerations {
			if tolerations[i].Operator == "" {
				tolerations[i].Operator = resourceapi.DeviceTolerationOpEqual
			}
		}
	}
	for i := range spec.Devices.Requests {
		r := &spec.Devices.Requests[i]
		if e := r.Exactly; e != nil {
			set(&e.AllocationMode, &e.Count, e.Tolerations)
		}
		for j := range r.FirstAvailable {
			s := &r.FirstAvailable[j]
			set(&s.AllocationMode, &s.Count, s.Tolerations)
		}
	}
	return spec
}

// deviceClasses are the classes as objects.
func (in *inputs) deviceClasses() map[string]*resourceapi.DeviceClass {
	classes := map[string]*resourceapi.DeviceClass{}
	for name, o := range in.classes {
		classes[name] = &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: *o.class}
	}
	return classes
}

// nodeGroups are the nodes to fill: of the machines named, else of the cluster.
func (o *simulateOptions) nodeGroups(ctx context.Context, in *inputs, errOut io.Writer) ([]simulate.NodeGroup, simulate.Options, error) {
	gates, err := allocation.OverrideGates(allocation.DefaultGates(allocation.NewestMinor), allocation.NewestMinor, o.gates)
	if err != nil {
		return nil, simulate.Options{}, cmdutil.UsageError{Err: fmt.Errorf("--feature-gates: %w", err)}
	}
	simulation := simulate.Options{Classes: in.deviceClasses(), Rules: in.rules, Limit: o.limit, Gates: &gates}
	if deriving := in.deriving(); deriving != nil && deriving.kept {
		gates = o.withDerived(gates, errOut)
	}
	var groups []simulate.NodeGroup
	for _, arg := range o.machines {
		g, err := simulate.FromMachine(ctx, arg, simulation.Classes, errOut)
		if err != nil {
			return nil, simulation, fit.Usage(err)
		}
		groups = append(groups, g)
	}
	if len(groups) > 0 {
		return groups, simulation, nil
	}
	client, err := o.cluster.Client()
	if err != nil {
		return nil, simulation, err
	}
	// Classes of files count before those of the cluster; those that plumbline
	// ships do not count in a cluster.
	for name, class := range in.classes {
		if class.source == shipped {
			delete(simulation.Classes, name)
		}
	}
	if deriving := in.deriving(); deriving != nil && !deriving.kept {
		if gates, err = o.askDerived(ctx, client, deriving, gates, errOut); err != nil {
			return nil, simulation, err
		}
	}
	groups, err = simulate.FromCluster(ctx, client, simulate.NodeFilter{Names: o.nodes, Labels: o.labels}, &simulation, errOut)
	return groups, simulation, fit.Usage(err)
}
