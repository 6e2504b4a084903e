// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

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
	// Gates are the scheduler's feature gates that its allocator hears of.
	Gates   structured.Features
	Classes map[string]*resourceapi.DeviceClass
	// Slices are those of all drivers, of any node.
	Slices []*resourceapi.ResourceSlice
	// Claims hold what they are allocated; those without an allocation hold
	// nothing.
	Claims []*resourceapi.ResourceClaim

	cel *cel.Cache
}

// New makes a Cluster. What is given is not changed.
func New(gates structured.Features, classes map[string]*resourceapi.DeviceClass, published []*resourceapi.ResourceSlice, claims []*resourceapi.ResourceClaim) *Cluster {
	return &Cluster{
		Gates: gates, Classes: classes, Slices: published, Claims: claims,
		cel: cel.NewCache(celCacheSize, cel.Features{EnableConsumableCapacity: gates.ConsumableCapacity}),
	}
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
	allocator, err := structured.NewAllocator(ctx, c.Gates, c.held(), classLister{c.Classes}, c.Slices, c.cel)
	if err != nil {
		return nil, fmt.Errorf("allocate on node %s: %w", node.Name, err)
	}
	results, err := allocator.Allocate(ctx, node, claims)
	if errors.Is(err, structured.ErrFailedAllocationOnNode) {
		return nil, nil // this node's trouble, and the scheduler goes on to the next
	}
	if err != nil {
		return nil, fmt.Errorf("allocate on node %s: %w", node.Name, err)
	}
	return results, nil
}

// held is what claims hold already, told apart as the scheduler does
// (kubernetes/pkg/scheduler/framework/plugins/dynamicresources/allocateddevices.go):
// a share of a device leaves the rest of it free, and admin access holds nothing.
func (c *Cluster) held() structured.AllocatedState {
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
			if ptr.Deref(r.AdminAccess, false) {
				continue
			}
			id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
			if r.ShareID == nil {
				state.AllocatedDevices.Insert(id)
				continue
			}
			state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, r.ShareID))
			state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity))
		}
	}
	return state
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
