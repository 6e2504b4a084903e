// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"
	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/driver"
)

func newRenderCommand() *cobra.Command {
	o := options{}
	cmd := &cobra.Command{
		Use:   "render (claim/NAME | template/NAME | -f FILE)...",
		Short: "Show the parameters that devices get, and where each comes from",
		Long: `Show the effective parameters of dra.net and dra.cpu and where each value comes
from: the default, the device class or the claim; the upper layer wins field by
field, and a list replaces the list below it. What is not shown of a NIC stays as
it is on the host.

Of an allocated claim it is shown for each device. Of others, of templates and of
files it is shown for each request that can be given such a device; device classes
that are not among the files are those that plumbline ships, if it has them.
What the node's cloud adds beneath is known on the node only.

The exit code is 1 when the driver would refuse what comes out.`,
		Example: `  # what did each device of this claim get?
  {{program}} claim render claim/aligned-resource-claim

  # what will come of this template and this class?
  {{program}} claim render -f template.yaml -f deviceclass.yaml

  # the configuration alone
  {{program}} claim render -f template.yaml -o json | jq '.[0].config'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			in, refs, err := o.read(cmd.Context(), args, cmd.InOrStdin())
			if err != nil {
				return err
			}
			for _, ref := range refs {
				if ref.Kind == cmdutil.KindClass {
					return cmdutil.Usagef("class/%s: a class is part of what a request gets: want claim/NAME or template/NAME", ref.Name)
				}
			}
			all, err := render(in)
			if err != nil {
				return err
			}
			if o.output == "text" {
				err = writeText(cmd.OutOrStdout(), all)
			} else {
				err = cmdutil.Encode(cmd.OutOrStdout(), o.output, all)
			}
			if err == nil && slices.ContainsFunc(all, func(r rendered) bool { return len(r.Mistakes) > 0 }) {
				return cmdutil.ErrReported
			}
			return err
		},
	}
	o.addTo(cmd)
	return cmd
}

// rendered is what one device, or one request, gets.
type rendered struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Request   string `json:"request"`
	// Pool and Device are absent before the allocation.
	Pool   string `json:"pool,omitempty"`
	Device string `json:"device,omitempty"`
	// Config is the effective configuration, and Origins says of each field
	// where it comes from.
	Config  parameters       `json:"config"`
	Origins v1alpha1.Origins `json:"origins"`
	// Mistakes are why the driver would refuse it.
	Mistakes []string `json:"mistakes,omitempty"`
	Notes    []string `json:"notes,omitempty"`
}

// render shows all claims and templates.
func render(in *inputs) ([]rendered, error) {
	all := []rendered{}
	found := false
	for _, o := range in.objects {
		if o.claim == nil {
			continue
		}
		found = true
		for _, s := range schemas {
			for _, a := range in.allocations(o, s.driver) {
				r, err := in.render(s, o, a)
				if err != nil {
					return nil, fmt.Errorf("%s, request %s: %w", o, a.Request, err)
				}
				all = append(all, r)
			}
		}
	}
	if !found {
		return nil, errors.New("no ResourceClaim and no ResourceClaimTemplate among the objects")
	}
	return all, nil
}

// allocations are the devices of a driver that a claim has, or that its requests
// may be given.
func (in *inputs) allocations(o *object, driverName string) []driver.Allocation {
	if o.allocation != nil {
		return allocatedDevices(o.allocation, driverName)
	}
	var all []driver.Allocation
	for _, r := range o.requests() {
		if in.mayBeOf(o, r, driverName) {
			all = append(all, in.allocated(o, r, driverName))
		}
	}
	return all
}

// allocatedDevices are a driver's devices of an allocated claim, of all nodes,
// with the parameters that the scheduler wrote down.
func allocatedDevices(a *resourceapi.AllocationResult, driverName string) []driver.Allocation {
	claim := &resourceapi.ResourceClaim{}
	claim.Status.Allocation = a
	var all []driver.Allocation
	var pools []string
	for _, r := range a.Devices.Results {
		if !slices.Contains(pools, r.Pool) {
			pools = append(pools, r.Pool)
			all = append(all, driver.FromAPI(claim, driverName, r.Pool).Devices...)
		}
	}
	return all
}

func (in *inputs) render(s schema, o *object, a driver.Allocation) (rendered, error) {
	class := ""
	for _, r := range o.requests() {
		if r.name == a.Request {
			class = r.class
		}
	}
	layers, err := s.decodeLayers(a.Configs)
	if err != nil {
		return rendered{}, err
	}
	r := rendered{Kind: o.kind, Namespace: o.namespace, Name: o.name, Request: a.Request, Pool: a.Pool, Device: a.Device}
	r.Config, r.Origins = s.effective(nameLayers(layers, class))
	for _, e := range slices.Concat(r.Config.Mistakes(), mistakesOfClaim(layers)) {
		r.Mistakes = append(r.Mistakes, e.Error())
	}
	if a.AdminAccess {
		r.Notes = append(r.Notes, "admin access looks at the device: none of this is done to it")
	}
	if o.allocation == nil && in.classes[class] == nil {
		r.Notes = append(r.Notes, "class "+class+" is not among the objects: its parameters are not shown")
	}
	if nic, ok := r.Config.(*v1alpha1.NetworkConfig); ok && nic.Profile != nil && *nic.Profile != "" {
		r.Notes = append(r.Notes, "profile "+*nic.Profile+": what it holds is known on the node only")
	}
	return r, nil
}

// nameLayers gives the class its name, and layers of one source numbers.
func nameLayers(layers []layer, class string) []layer {
	total, seen := map[string]int{}, map[string]int{}
	for _, l := range layers {
		total[l.source]++
	}
	var named []layer
	for _, l := range layers {
		seen[l.source]++
		name := l.source
		if l.source == driver.SourceClass && class != "" {
			name += " " + class
		}
		if total[l.source] > 1 {
			name += fmt.Sprintf(" (%d of %d)", seen[l.source], total[l.source])
		}
		named = append(named, layer{name, l.config})
	}
	return named
}

// writeText writes an aligned table for each device or request.
func writeText(w io.Writer, all []rendered) error {
	var b bytes.Buffer
	for i, r := range all {
		if i > 0 {
			fmt.Fprintln(&b)
		}
		fmt.Fprintf(&b, "%s, request %s", &object{kind: r.Kind, namespace: r.Namespace, name: r.Name}, r.Request)
		if r.Device != "" {
			fmt.Fprintf(&b, ", device %s of pool %s", r.Device, r.Pool)
		}
		fmt.Fprintln(&b)
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "  FIELD\tVALUE\tFROM")
		for _, l := range r.Config.FieldValues() {
			fmt.Fprintf(t, "  %s\t%s\t%s\n", l.Path, show(l), r.Origins[l.Path])
		}
		if err := t.Flush(); err != nil {
			return err
		}
		for _, m := range r.Mistakes {
			fmt.Fprintf(&b, "  refused: %s\n", m)
		}
		for _, n := range r.Notes {
			fmt.Fprintf(&b, "  note: %s\n", n)
		}
	}
	if len(all) == 0 {
		fmt.Fprintln(&b, "no request can be given a NIC of dra.net, or CPUs of dra.cpu")
	}
	_, err := w.Write(b.Bytes())
	return err
}

func show(l v1alpha1.FieldValue) string {
	if v := reflect.ValueOf(l.Value); v.Kind() == reflect.Slice {
		return "[]"
	}
	if l.Value == "" {
		return `""`
	}
	return fmt.Sprint(l.Value)
}
