// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package addresspools

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nets "plumbline.dev/plumbline/api/net/v1alpha1"
)

// Ready is the condition of a pool.
const Ready = "Ready"

// mostNames is how many nodes a message names.
const mostNames = 8

func labelsOf(n *corev1.Node) labels.Set { return n.Labels }

// tell writes the pool's status where it differs.
func (r *reconciler) tell(ctx context.Context, v view, lacking []string) error {
	status := v.pool.Status.DeepCopy()
	status.ObservedGeneration = v.pool.Generation
	status.Blocks, status.Used = int64(len(v.blocks)), 0
	status.FreeBlocks = 0
	if v.wrong == "" {
		status.FreeBlocks = int64(max(0, blockCount(v.subnets)-len(v.blocks)))
	}
	for _, b := range v.blocks {
		status.Used += b.Status.Used
	}
	meta.SetStatusCondition(&status.Conditions, readyOf(v, lacking))
	if apiequality.Semantic.DeepEqual(*status, v.pool.Status) {
		return nil
	}
	changed := v.pool.DeepCopy()
	changed.Status = *status
	if err := r.client.Status().Update(ctx, changed); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of pool %s: %w", v.pool.Name, err)
	}
	return nil
}

func readyOf(v view, lacking []string) metav1.Condition {
	c := metav1.Condition{Type: Ready, Status: metav1.ConditionFalse, ObservedGeneration: v.pool.Generation}
	switch {
	case v.pool.DeletionTimestamp != nil:
		c.Reason, c.Message = "Deleting", "waits for the claims that have addresses: "+named(nodesOf(v.blocks))
	case v.wrong != "":
		c.Reason, c.Message = "Invalid", v.wrong+": no more blocks are made"
	case len(lacking) > 0:
		c.Reason = "Exhausted"
		c.Message = fmt.Sprintf("%d of %d nodes have no block, for there are %d in all: %s; want a smaller blockSize in another pool, or a nodeSelector of fewer nodes",
			len(lacking), len(v.wanted), blockCount(v.subnets), named(lacking))
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, "Carved", fmt.Sprintf("%d nodes have a block", len(v.wanted))
	}
	return c
}

func nodesOf(blocks map[int]*nets.NetworkAddressBlock) []string {
	var nodes []string
	for _, b := range blocks {
		nodes = append(nodes, b.Spec.Node)
	}
	slices.Sort(nodes)
	return nodes
}

// named are the first of some names.
func named(names []string) string {
	if more := len(names) - mostNames; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:mostNames], ", "), more)
	}
	return strings.Join(names, ", ")
}
