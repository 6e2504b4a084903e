// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package allocation runs the scheduler's own allocator
// (k8s.io/dynamic-resource-allocation/structured) without a scheduler: given
// slices, classes and the claims that hold devices, would these claims be
// allocated on that node, and what would they get?
//
// The rules are all the allocator's; nothing here reads a cluster or a file.
package allocation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// celCacheSize is how many compiled selectors are kept: the scheduler's own
// number (kubernetes/pkg/scheduler/framework/plugins/dynamicresources).
const celCacheSize = 10

// Cluster is what the scheduler knows when it looks for devices.
type Cluster struct {
	// Gates are the scheduler's feature gates that it passes to its allocator.
	Gates   Gates
	Classes map[string]*resourceapi.DeviceClass
	// Slices are those of all drivers, of any node.
	Slices []*resourceapi.ResourceSlice
	// Claims hold what they are allocated; those without an allocation hold
	// nothing.
	Claims []*resourceapi.ResourceClaim

	cel *cel.Cache
}

// New makes a Cluster. What is given is not changed.
func New(gates Gates, classes map[string]*resourceapi.DeviceClass, published []*resourceapi.ResourceSlice, claims []*resourceapi.ResourceClaim) *Cluster {
	return &Cluster{
		Gates: gates, Classes: classes, Slices: published, Claims: claims,
		cel: cel.NewCache(celCacheSize, cel.Features{EnableConsumableCapacity: gates.ConsumableCapacity, EnableListTypeAttributes: gates.ListTypeAttributes}),
	}
}

// WithSelectorCache is the cluster with a shared cache of compiled selectors.
func (c *Cluster) WithSelectorCache(cache *cel.Cache) *Cluster {
	other := *c
	other.cel = cache
	return &other
}

// ForNode keeps the slices that devices of a node can be in: its own, and those
// that name no single node.
func (c *Cluster) ForNode(node string) *Cluster {
	narrowed := *c
	narrowed.Slices = slices.DeleteFunc(slices.Clone(c.Slices), func(s *resourceapi.ResourceSlice) bool {
		return s.Spec.NodeName != nil && *s.Spec.NodeName != node
	})
	return &narrowed
}

// With is the cluster with further claims in it.
func (c *Cluster) With(claims ...*resourceapi.ResourceClaim) *Cluster {
	more := *c
	more.Claims = append(slices.Clone(c.Claims), claims...)
	return &more
}

// Allocate looks for devices for the claims of one pod on a node, as the
// scheduler does: one result for each claim, in their order, or nil where they
// do not fit. An error is a claim that no node can serve, such as a selector
// that fails, or the context's: a search that takes too long.
func (c *Cluster) Allocate(ctx context.Context, node *corev1.Node, claims ...*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, error) {
	allocator, err := structured.NewAllocator(ctx, c.Gates, c.allocated(), classLister{c.Classes}, c.Slices, c.cel)
	if err != nil {
		return nil, fmt.Errorf("allocate on node %s: %w", node.Name, err)
	}
	results, err := allocator.Allocate(ctx, node, claims)
	if errors.Is(err, structured.ErrFailedAllocationOnNode) {
		return nil, nil // an error of this node alone: the scheduler tries the next one
	}
	if err != nil {
		return nil, fmt.Errorf("allocate on node %s: %w", node.Name, err)
	}
	return results, nil
}

// allocated is what claims hold already, as the scheduler counts it
// (kubernetes/pkg/scheduler/framework/plugins/dynamicresources/allocateddevices.go):
// a share of a device leaves the rest of it free, unless consumable capacity is off, and
// admin access holds nothing.
func (c *Cluster) allocated() structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, claim := range c.Claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
			switch {
			case ptr.Deref(r.AdminAccess, false):
			case c.Gates.ConsumableCapacity && r.ShareID != nil:
				state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, r.ShareID))
				if r.ConsumedCapacity != nil {
					state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity))
				}
			default:
				state.AllocatedDevices.Insert(id)
			}
		}
	}
	return state
}

// NodeMatches says whether a node is one of those that a slice, a device or an
// allocation is for, by the allocator's rules.
func NodeMatches(gates Gates, node *corev1.Node, nodeName string, allNodes bool, selector *corev1.NodeSelector) (bool, error) {
	return structured.NodeMatches(gates, node, nodeName, allNodes, selector)
}

// classLister gives the allocator its classes.
type classLister struct {
	classes map[string]*resourceapi.DeviceClass
}

func (l classLister) List() ([]*resourceapi.DeviceClass, error) {
	return slices.Collect(maps.Values(l.classes)), nil
}

func (l classLister) Get(name string) (*resourceapi.DeviceClass, error) {
	if class := l.classes[name]; class != nil {
		return class, nil
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("deviceclasses"), name)
}

// Fill allocates claims to pod after pod on one node until no further pod fits,
// or limit pods have theirs. It returns the claims of each pod, allocated, and
// the cluster with them in it. An error comes with what was reached before it.
func (c *Cluster) Fill(ctx context.Context, node *corev1.Node, limit int, claims ...*resourceapi.ResourceClaim) (pods [][]*resourceapi.ResourceClaim, full *Cluster, err error) {
	full = c.ForNode(node.Name)
	for len(pods) < limit {
		copies := make([]*resourceapi.ResourceClaim, len(claims))
		for i, claim := range claims {
			copies[i] = claim.DeepCopy()
			copies[i].Name = fmt.Sprintf("%s-%d", claim.Name, len(pods)+1)
			copies[i].UID = types.UID(fmt.Sprintf("%s-%d-%d", node.Name, len(pods)+1, i))
			copies[i].Status = resourceapi.ResourceClaimStatus{}
		}
		results, err := full.Allocate(ctx, node, copies...)
		if err != nil || results == nil {
			return pods, full, err
		}
		for i := range results {
			copies[i].Status.Allocation = &results[i]
		}
		pods = append(pods, copies)
		full = full.With(copies...)
	}
	return pods, full, nil
}
