// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package addresspools

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nets "plumbline.dev/plumbline/api/net/v1alpha1"
	"plumbline.dev/plumbline/internal/plural"
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
	status.Blocks, status.FreeBlocks, status.Used, status.InUseExcluded = int64(len(v.blocks)), int64(v.free()), 0, 0
	for _, b := range v.blocks {
		status.Used += b.Status.Used
		status.InUseExcluded += b.Status.InUseExcluded
	}
	status.Subnets = cidrsOf(v.pool)
	meta.SetStatusCondition(&status.Conditions, readyOf(v, lacking, status.InUseExcluded))
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

// cidrsOf are a pool's subnets as one text.
func cidrsOf(pool *nets.NetworkAddressPool) string {
	var texts []string
	for _, s := range pool.Spec.Subnets {
		texts = append(texts, s.CIDR)
	}
	return strings.Join(texts, ",")
}

func readyOf(v view, lacking []string, excluded int64) metav1.Condition {
	c := metav1.Condition{Type: Ready, Status: metav1.ConditionFalse, ObservedGeneration: v.pool.Generation}
	switch {
	case v.pool.DeletionTimestamp != nil:
		c.Reason, c.Message = "Deleting", waitsFor(v)
	case v.wrong != "":
		c.Reason, c.Message = "Invalid", v.wrong+": no more blocks are made"
	case len(lacking) > 0:
		c.Reason = "Exhausted"
		c.Message = fmt.Sprintf("%d of %d nodes have no block, for there are %d in all%s: %s; want a smaller blockSize in another pool, or a nodeSelector of fewer nodes",
			len(lacking), len(v.wanted), blockCount(v.subnets)-len(v.barren), v.ofOthers(), named(lacking))
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, "Carved", fmt.Sprintf("%d nodes have a block", len(v.wanted))
	}
	if excluded > 0 {
		c.Message += fmt.Sprintf("; claims still have %s that nobody gets after them, for exclude has them or one is the gateway", plural.Count(int(excluded), "address", "addresses"))
	}
	return c
}

// ofOthers says which blocks are other pools', as a clause; empty where none are.
func (v view) ofOthers() string {
	if len(v.taken) == 0 {
		return ""
	}
	names := slices.Compact(slices.Sorted(maps.Values(v.taken)))
	return fmt.Sprintf(", and %d of them have addresses of other pools' blocks (%s)", len(v.taken), named(names))
}

// waitsFor says what keeps the blocks of a pool that is being deleted. Where there is an agent, claims
// that end do; of other nodes it is what claims the API server has.
func waitsFor(v view) string {
	var agents, claimed, waiting []string
	until := *v.pool.DeletionTimestamp
	for _, b := range v.blocks {
		switch {
		case v.served[b.Spec.Node]:
			agents = append(agents, b.Spec.Node)
		case v.claimed[b.Spec.Node]:
			claimed = append(claimed, b.Spec.Node)
		default:
			waiting = append(waiting, b.Spec.Node)
			if b.DeletionTimestamp != nil && until.Before(b.DeletionTimestamp) {
				until = *b.DeletionTimestamp
			}
		}
	}
	var clauses []string
	for _, c := range []struct {
		text  string
		nodes []string
	}{
		{"waits for the claims that have addresses", agents},
		{"waits for claims that are allocated on nodes without an agent", claimed},
		{"waits until " + until.Add(nodeGoneFor).UTC().Format(time.RFC3339) + " for nodes without an agent", waiting},
	} {
		if len(c.nodes) > 0 {
			slices.Sort(c.nodes)
			clauses = append(clauses, c.text+": "+named(c.nodes))
		}
	}
	return strings.Join(clauses, "; ")
}

// named are the first of some names.
func named(names []string) string {
	if more := len(names) - mostNames; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:mostNames], ", "), more)
	}
	return strings.Join(names, ", ")
}
