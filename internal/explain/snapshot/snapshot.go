// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package snapshot is the state from which the scheduler allocates devices: nodes, the
// pools of their devices, classes, and which claims hold which devices. It takes API
// objects from a cluster or from files and decides nothing; invalid objects are
// described as they are, never refused.
package snapshot

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/suggest"
)

// Objects are the API objects that were read of a cluster, or of files. They are not
// changed.
type Objects struct {
	// Source says in words where it comes from.
	Source string
	// Minor is the version of Kubernetes: 1.Minor.
	Minor int
	Gates allocation.Gates
	// Nodes may lack nodes that slices name; those are known by name only.
	Nodes  []*corev1.Node
	Slices []*resourceapi.ResourceSlice
	// Unpack returns a slice with its devices, for who cannot keep those of
	// thousands of nodes in memory; nil: Slices have theirs. It may be called by
	// several goroutines.
	Unpack  func(*resourceapi.ResourceSlice) *resourceapi.ResourceSlice
	Classes map[string]*resourceapi.DeviceClass
	// TaintRules taint devices beside what slices say.
	TaintRules []*resourceapi.DeviceTaintRule
	// Claims are all claims. Those that are allocated hold devices.
	Claims []*resourceapi.ResourceClaim
}

// DeviceID names a device.
type DeviceID struct{ Driver, Pool, Device string }

// String is driver/pool/device.
func (d DeviceID) String() string { return d.Driver + "/" + d.Pool + "/" + d.Device }

// PoolID names a pool: pools of two drivers may have one name.
type PoolID struct{ Driver, Pool string }

// String is driver/pool.
func (p PoolID) String() string { return p.Driver + "/" + p.Pool }

// Cluster is a snapshot of a cluster, indexed by node and by pool. It may be used by
// several goroutines.
type Cluster struct {
	Objects
	// nodes are all of them by name.
	nodes map[string]*corev1.Node
	// byNode are the slices of one node each, and shared all others, byPool the
	// slices of each pool.
	byNode map[string][]*resourceapi.ResourceSlice
	shared []*resourceapi.ResourceSlice
	byPool map[PoolID][]*resourceapi.ResourceSlice
	held   map[DeviceID]*Held
	// attributes are the names that AttributeNames has found.
	attributes func() []string
}

// New indexes objects.
func New(s Objects) *Cluster {
	s.Slices = s.tainted()
	c := &Cluster{
		Objects: s, nodes: map[string]*corev1.Node{},
		byNode: map[string][]*resourceapi.ResourceSlice{}, byPool: map[PoolID][]*resourceapi.ResourceSlice{},
	}
	for _, n := range s.Nodes {
		c.nodes[n.Name] = n
	}
	for _, slice := range s.Slices {
		id := PoolID{slice.Spec.Driver, slice.Spec.Pool.Name}
		c.byPool[id] = append(c.byPool[id], slice)
		name := nodeName(slice)
		if name == "" {
			c.shared = append(c.shared, slice)
			continue
		}
		c.byNode[name] = append(c.byNode[name], slice)
		if c.nodes[name] == nil {
			c.nodes[name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		}
	}
	c.held = gatherHeld(s.Claims, s.Gates.ConsumableCapacity)
	c.attributes = sync.OnceValue(c.attributeNames)
	return c
}

// AttributeNames lists the attributes that any device has, with their domains,
// sorted.
func (c *Cluster) AttributeNames() []string { return c.attributes() }

func (c *Cluster) attributeNames() []string {
	all := map[string]bool{}
	for _, kept := range c.Slices {
		slice := c.whole(kept)
		for i := range slice.Spec.Devices {
			for name := range slice.Spec.Devices[i].Attributes {
				full := string(name)
				if !strings.Contains(full, "/") {
					full = slice.Spec.Driver + "/" + full
				}
				all[full] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// WithClaims is the cluster with other claims in it.
func (c *Cluster) WithClaims(claims []*resourceapi.ResourceClaim) *Cluster {
	other := *c
	other.Claims = claims
	other.held = gatherHeld(claims, c.Gates.ConsumableCapacity)
	return &other
}

// WithGates is the cluster with other feature gates.
func (c *Cluster) WithGates(g allocation.Gates) *Cluster {
	other := *c
	other.Gates = g
	other.held = gatherHeld(c.Claims, g.ConsumableCapacity)
	return &other
}

// NodeNames lists the nodes, sorted.
func (c *Cluster) NodeNames() []string { return slices.Sorted(maps.Keys(c.nodes)) }

// Node returns a node, nil if there is none of the name.
func (c *Cluster) Node(name string) *corev1.Node { return c.nodes[name] }

// Drivers lists the drivers that publish anything, sorted.
func (c *Cluster) Drivers() []string {
	drivers := map[string]bool{}
	for id := range c.byPool {
		drivers[id.Driver] = true
	}
	return slices.Sorted(maps.Keys(drivers))
}

func nodeName(slice *resourceapi.ResourceSlice) string {
	if slice.Spec.NodeName == nil {
		return ""
	}
	return *slice.Spec.NodeName
}

// WithClasses is the cluster with other device classes.
func (c *Cluster) WithClasses(classes map[string]*resourceapi.DeviceClass) *Cluster {
	other := *c
	other.Classes = classes
	return &other
}

// Only is the cluster with some of its nodes.
func (c *Cluster) Only(names []string) (*Cluster, error) {
	other := *c
	other.nodes = map[string]*corev1.Node{}
	for _, name := range names {
		n := c.nodes[name]
		if n == nil {
			err := fmt.Errorf("node %q is not there", name)
			if meant := suggest.Closest(name, c.NodeNames()); meant != "" {
				err = fmt.Errorf("%w: did you mean %s?", err, meant)
			}
			return nil, err
		}
		other.nodes[name] = n
	}
	return &other, nil
}
