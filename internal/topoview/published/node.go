// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package published

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/plural"
	"plumbline.dev/plumbline/internal/topoview"
)

// View is a machine and what to say of it: a node as its slices describe it,
// or any other.
type View struct {
	Machine *model.Machine
	Options topoview.Options
	// Left are the lines about what could not be read.
	Left []string
}

// Topology arranges the view.
func (v *View) Topology() *topoview.Topology { return topoview.Build(v.Machine, v.Options) }

// Node decodes the slices of a node, and adds the claims that hold its devices.
func (c Cluster) Node(node string) (*View, error) {
	published := c.OfNode(node)
	// A device that cannot be read is left out, all others are there.
	decoded, err := slicecodec.Decode(published)
	if decoded == nil {
		return nil, fmt.Errorf("read the ResourceSlices of node %s: %w", node, err)
	}
	v := &View{Machine: decoded.Machine, Left: decoded.Notes}
	if err != nil {
		v.Left = append(v.Left, strings.Split(err.Error(), "\n")...)
	}
	v.Options = topoview.Options{
		Name: node, Source: "the ResourceSlices and ResourceClaims of node " + node,
		CPUCounts: map[int]int{}, CPUGroups: decoded.CPUGroups,
		Published: publishedFacts(published, consumed(c.Claims)),
		Notes:     append(incomplete(published), "bridges, cores, memory sizes and distances of NUMA nodes are not published; plumbline topo on the node shows them"),
	}
	for _, g := range decoded.CPUGroups {
		if g.NUMANode != nil {
			v.Options.CPUCounts[*g.NUMANode] += g.Count
		}
	}
	if c.Unknown != "" {
		v.Options.Notes = append(v.Options.Notes, "who holds what is unknown: "+c.Unknown)
	}
	v.Options.HoldersKnown = c.Unknown == ""
	v.Options.Holders = holders(published, c.Claims)
	v.Options.Parts = map[topoview.DeviceID]slicecodec.Part{}
	for id, part := range decoded.Parts {
		v.Options.Parts[topoview.DeviceID(id)] = part
	}
	return v, nil
}

// publishedFacts are which devices several claims share, of which of those nothing is left,
// and which are tainted.
func publishedFacts(published []resourceapi.ResourceSlice, used consumption) map[topoview.DeviceID]topoview.Published {
	facts := map[topoview.DeviceID]topoview.Published{}
	for _, s := range published {
		for _, d := range s.Spec.Devices {
			p := topoview.Published{Shared: ptr.Deref(d.AllowMultipleAllocations, false)}
			p.UsedUp = p.Shared && used.usedUp(&s, &d)
			if s.Spec.Driver == slicecodec.DriverNet {
				p.UsedSlots, p.UsedBandwidth = used.amount(&s, &d, slicecodec.CapacitySlots), used.amount(&s, &d, slicecodec.CapacityBandwidth)
			}
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
			notes = append(notes, fmt.Sprintf("%s is publishing pool %s just now: %s missing", id.driver, id.pool, plural.Count(int(n), "slice is", "slices are")))
		}
	}
	slices.Sort(notes)
	return notes
}
