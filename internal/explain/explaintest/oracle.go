// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explaintest

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"

	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/explain/snapshot"
	"plumbline.dev/plumbline/internal/explain/solver"
)

// Oracle is the scheduler's allocator for one cluster.
type Oracle struct {
	allocator *allocation.Cluster
	nodes     func(string) *corev1.Node
}

// NewOracle sets the allocator up as the scheduler does.
func NewOracle(c *snapshot.Cluster, cache *cel.Cache) *Oracle {
	return &Oracle{allocator: allocation.New(c.Gates, c.Classes, c.Slices, c.Claims).WithSelectorCache(cache), nodes: c.Node}
}

// Ask is the allocator's answer: Unknown where it took longer than the limit.
func (o *Oracle) Ask(ctx context.Context, node string, claims []*resourceapi.ResourceClaim, limit time.Duration) (solver.Verdict, []resourceapi.AllocationResult, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	results, err := o.allocator.Allocate(ctx, o.nodes(node), claims...)
	switch {
	case ctx.Err() != nil && results == nil:
		return solver.Unknown, nil, err
	case err != nil:
		return solver.Aborts, nil, err
	case results == nil:
		return solver.FitsNot, nil, nil
	}
	return solver.Fits, results, nil
}
