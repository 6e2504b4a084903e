// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package fit says where a claim fits that is about to be written, why not, and
// which flags would help. What a claim is, is claimgen's to decide; whether it
// fits, simulate's.
package fit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/cli-runtime/pkg/resource"

	"plumbline.dev/plumbline/deploy"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/simulate"
)

// Options are the flags that say where a claim is to fit.
type Options struct {
	machines, files, nodes []string
	labels                 string
	live                   bool
	cluster                cmdutil.ClusterFlags
	// clusterFlags are those of cluster: any of them on the command line asks for it.
	clusterFlags *pflag.FlagSet
}

// AddFlags adds them to a command's.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringArrayVar(&o.machines, "machine", nil, "say whether it fits a shipped machine, by name, or a machine file, by path. May be repeated")
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "say whether it fits the nodes whose ResourceSlices a file has; - is the standard input. May be repeated")
	flags.BoolVar(&o.live, "live", false, "say whether it fits the nodes of the cluster, as --node, -l and kubectl's flags for finding one do too")
	flags.StringArrayVar(&o.nodes, "node", nil, "say whether it fits this node of the cluster. May be repeated")
	flags.StringVarP(&o.labels, "selector", "l", "", "say whether it fits the nodes of the cluster that have these labels")
	o.cluster, o.clusterFlags = cmdutil.NewClusterFlags(), pflag.NewFlagSet("cluster", pflag.ContinueOnError)
	o.cluster.AddFlags(o.clusterFlags)
	flags.AddFlagSet(o.clusterFlags)
}

// asksCluster says whether the nodes of the cluster are meant.
func (o *Options) asksCluster() bool {
	asked := o.live || len(o.nodes) > 0 || o.labels != ""
	o.clusterFlags.VisitAll(func(f *pflag.Flag) { asked = asked || f.Changed })
	return asked
}

// Candidates are the nodes on which a claim is tried.
type Candidates struct {
	groups     []simulate.NodeGroup
	simulation simulate.Options
	// shipped says that no flag named them: they are the machines that plumbline ships.
	shipped bool
}

// Open finds the nodes that the flags name, or else the shipped machines.
func (o *Options) Open(ctx context.Context, stdin io.Reader, errOut io.Writer) (*Candidates, error) {
	switch {
	case len(o.machines) > 0 && len(o.files) > 0:
		return nil, cmdutil.Usagef("--machine %s and -f %s: want one of them", o.machines[0], o.files[0])
	case len(o.machines)+len(o.files) > 0 && o.asksCluster():
		return nil, cmdutil.Usagef("--machine and -f ask no cluster, and --live, --node, -l, --context and the like do: want one of them")
	case len(o.nodes) > 0 && o.labels != "":
		return nil, cmdutil.Usagef("--node %s and -l %s: want one of them", o.nodes[0], o.labels)
	}
	c := &Candidates{simulation: simulate.Options{Classes: map[string]*resourceapi.DeviceClass{}, Limit: 1}}
	var err error
	switch {
	case o.asksCluster():
		err = c.ofCluster(ctx, o, errOut)
	case len(o.files) > 0:
		err = c.ofFiles(o.files, stdin)
	default:
		err = c.ofMachines(ctx, o.machines, errOut)
	}
	return c, Usage(err)
}

// Usage makes a mistake of the command line of one that names a node wrongly.
func Usage(err error) error {
	if wrong := (simulate.UsageError{}); errors.As(err, &wrong) {
		return cmdutil.UsageError{Err: wrong.Err}
	}
	return err
}

func (c *Candidates) ofCluster(ctx context.Context, o *Options, errOut io.Writer) error {
	client, err := o.cluster.Client()
	if err != nil {
		return err
	}
	c.groups, err = simulate.FromCluster(ctx, client, simulate.NodeFilter{Names: o.nodes, Labels: o.labels}, &c.simulation, errOut)
	return err
}

// ofFiles takes the nodes of slices, and what claims of the files hold of them.
func (c *Candidates) ofFiles(files []string, stdin io.Reader) error {
	var in objects
	if err := in.read(cmdutil.Files(files, false, stdin)); err != nil {
		return err
	}
	if len(in.slices) == 0 {
		return fmt.Errorf("-f %s has no ResourceSlice: want such as 'kubectl get resourceslices,deviceclasses,resourceclaims -A -o yaml' writes", files[0])
	}
	if err := c.addClasses(in.classes); err != nil {
		return err
	}
	c.simulation.Held, c.simulation.Rules = in.claims, in.rules
	var err error
	c.groups, err = simulate.FromSlices(in.slices, in.nodes)
	return err
}

// ofMachines takes machines, and all that plumbline ships where none is named.
func (c *Candidates) ofMachines(ctx context.Context, names []string, errOut io.Writer) error {
	if err := c.addClasses(nil); err != nil {
		return err
	}
	if len(names) == 0 {
		names, c.shipped = machine.Names(), true
	}
	for _, name := range names {
		group, err := simulate.FromMachine(ctx, name, c.simulation.Classes, errOut)
		if err != nil {
			return err
		}
		c.groups = append(c.groups, group)
	}
	return nil
}

// addClasses adds device classes, and those that plumbline ships where no other
// of the name is given.
func (c *Candidates) addClasses(given []resourceapi.DeviceClass) error {
	var ours objects
	if err := ours.read(resource.NewLocalBuilder().Unstructured().Flatten().Stream(bytes.NewReader(deploy.DeviceClasses()), "shipped with plumbline")); err != nil {
		return err
	}
	for _, classes := range [][]resourceapi.DeviceClass{ours.classes, given} {
		for i := range classes {
			c.simulation.Classes[classes[i].Name] = &classes[i]
		}
	}
	return nil
}
