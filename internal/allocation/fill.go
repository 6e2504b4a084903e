// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

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
