// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/topoview"
)

// nodeView is a machine to draw: a node as its slices describe it, this host, or
// a machine file.
type nodeView struct {
	machine *model.Machine
	options topoview.Options
	// left are the lines about what could not be read.
	left []string
}

// view decodes the slices of a node, and adds the claims that hold its devices.
func (o observed) view(node string) (*nodeView, error) {
	published := o.ofNode(node)
	// A device that cannot be read is left out, all others are there.
	decoded, err := slicecodec.Decode(published)
	if decoded == nil {
		return nil, fmt.Errorf("read the ResourceSlices of node %s: %w", node, err)
	}
	v := &nodeView{machine: decoded.Machine}
	if err != nil {
		v.left = strings.Split(err.Error(), "\n")
	}
	v.options = topoview.Options{
		Name: node, Source: "the ResourceSlices and ResourceClaims of node " + node,
		Sockets: map[int]int{}, CPUCounts: map[int]int{}, CPUGroups: decoded.CPUGroups,
		Published: publishedFacts(published),
		Notes:     append(incomplete(published), "bridges, cores, memory sizes and distances of NUMA nodes are not published; plumbline topo on the node shows them"),
	}
	for _, g := range decoded.CPUGroups {
		if g.NUMANode == nil {
			continue
		}
		if g.Socket != nil {
			v.options.Sockets[*g.NUMANode] = *g.Socket
		}
		v.options.CPUCounts[*g.NUMANode] += g.Count
	}
	if o.claimsErr != nil {
		v.options.Notes = append(v.options.Notes, "who holds what is unknown: "+cmdutil.OneLine(o.claimsErr))
	}
	v.options.HoldersKnown = o.claimsErr == nil
	v.options.Holders = holders(published, o.claims)
	return v, nil
}

// loadNode views a node of a cluster.
func loadNode(ctx context.Context, client kubernetes.Interface, node string) (*nodeView, error) {
	o, err := observe(ctx, client, node)
	if err != nil {
		return nil, err
	}
	if len(o.ofNode(node)) == 0 {
		return nil, noSlices(ctx, client, node)
	}
	return o.view(node)
}

// watchNode views a node whenever what is published or claimed changes. A node
// that withdraws everything is shown empty.
func watchNode(ctx context.Context, client kubernetes.Interface, node string) (<-chan *nodeView, error) {
	if _, err := loadNode(ctx, client, node); err != nil {
		return nil, err
	}
	changes, err := follow(ctx, client, node)
	if err != nil {
		return nil, err
	}
	views := make(chan *nodeView)
	go func() {
		defer close(views)
		for o := range changes {
			v, err := o.view(node)
			if err != nil {
				continue // the next generation can be read again
			}
			select {
			case views <- v:
			case <-ctx.Done():
				return
			}
		}
	}()
	return views, nil
}

// publishedFacts are which devices several claims share, and which are tainted.
func publishedFacts(published []resourceapi.ResourceSlice) map[topoview.DeviceID]topoview.Published {
	facts := map[topoview.DeviceID]topoview.Published{}
	for _, s := range published {
		for _, d := range s.Spec.Devices {
			p := topoview.Published{Shared: ptr.Deref(d.AllowMultipleAllocations, false)}
			var taints []string
			for _, t := range d.Taints {
				if t.Effect == resourceapi.DeviceTaintEffectNone {
					continue
				}
				text := t.Key
				if t.Value != "" {
					text += "=" + t.Value
				}
				taints = append(taints, text)
			}
			p.Taint = strings.Join(taints, ", ")
			if p != (topoview.Published{}) {
				facts[topoview.DeviceID{Driver: s.Spec.Driver, Name: d.Name}] = p
			}
		}
	}
	return facts
}

// incomplete names the pools of which slices are missing.
func incomplete(published []resourceapi.ResourceSlice) []string {
	missing := map[poolID]int64{}
	for i := range published {
		id := poolOf(&published[i])
		if _, seen := missing[id]; !seen {
			missing[id] = published[i].Spec.Pool.ResourceSliceCount
		}
		missing[id]--
	}
	var notes []string
	for id, n := range missing {
		if n > 0 {
			notes = append(notes, fmt.Sprintf("%s is publishing pool %s just now: %s missing", id.driver, id.pool, topoview.Count(int(n), "slice is", "slices are")))
		}
	}
	slices.Sort(notes)
	return notes
}
