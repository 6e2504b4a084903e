// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explaintest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/explain/cluster"
	"plumbline.dev/plumbline/internal/explain/solver"
)

// Oracle is the scheduler's allocator for one cluster.
type Oracle struct {
	allocator structured.Allocator
	nodes     func(string) *corev1.Node
}

// NewOracle sets the allocator up as the scheduler does.
func NewOracle(ctx context.Context, c *cluster.Cluster, cache *cel.Cache) (*Oracle, error) {
	allocator, err := structured.NewAllocator(ctx, c.Gates, held(c.Claims, c.Gates.ConsumableCapacity), classes(c.Classes), c.Slices, cache)
	return &Oracle{allocator: allocator, nodes: c.Node}, err
}

// Ask is the allocator's answer: Unknown where it took longer than the limit.
func (o *Oracle) Ask(ctx context.Context, node string, claims []*resourceapi.ResourceClaim, limit time.Duration) (solver.Verdict, []resourceapi.AllocationResult, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	results, err := o.allocator.Allocate(ctx, o.nodes(node), claims)
	switch {
	case ctx.Err() != nil && err != nil:
		return solver.Unknown, nil, err
	case err != nil && !errors.Is(err, structured.ErrFailedAllocationOnNode):
		return solver.Aborts, nil, err
	case results == nil:
		return solver.FitsNot, nil, err
	}
	return solver.Fits, results, nil
}

// held is what claims have, as
// pkg/scheduler/framework/plugins/dynamicresources/allocateddevices.go says.
func held(claims []*resourceapi.ResourceClaim, consumable bool) structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: structured.NewConsumedCapacityCollection(),
	}
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
			switch {
			case ptr.Deref(r.AdminAccess, false):
			case consumable && r.ShareID != nil:
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

type classes map[string]*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) {
	return slices.Collect(maps.Values(c)), nil
}

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if class := c[name]; class != nil {
		return class, nil
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("deviceclasses"), name)
}
