// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/topoview"
)

// loadNode draws a node of a cluster as its ResourceSlices describe it, with
// the claims that hold its devices. The lines are what was left out.
func loadNode(ctx context.Context, client kubernetes.Interface, node string) (*topoview.Topology, []string, error) {
	published, err := nodeSlicesOf(ctx, client, node)
	if err != nil {
		return nil, nil, err
	}
	if len(published) == 0 {
		return nil, nil, noSlices(ctx, client, node)
	}
	// A device that cannot be read is left out, all others are there.
	decoded, err := slicecodec.Decode(published)
	if decoded == nil {
		return nil, nil, fmt.Errorf("read the ResourceSlices of node %s: %w", node, err)
	}
	var left []string
	if err != nil {
		left = strings.Split(err.Error(), "\n")
	}
	view := topoview.Options{
		Name: node, Source: "the ResourceSlices and ResourceClaims of node " + node,
		Sockets: map[int]int{}, CPUCounts: map[int]int{},
		Notes: append(incomplete(published), "bridges, cores, memory sizes and distances of NUMA nodes are not published; plumbline topo on the node shows them"),
	}
	for _, g := range decoded.CPUGroups {
		if g.NUMANode == nil {
			continue
		}
		if g.Socket != nil {
			view.Sockets[*g.NUMANode] = *g.Socket
		}
		view.CPUCounts[*g.NUMANode] += g.Count
	}
	claims, err := listClaims(ctx, client)
	switch {
	case apierrors.IsForbidden(err):
		view.Notes = append(view.Notes, "who holds what is unknown: "+cmdutil.OneLine(err))
	case err != nil:
		return nil, nil, err
	}
	view.Holders = holders(published, claims)
	return topoview.Build(decoded.Machine, view), left, nil
}

// nodeSlicesOf lists the slices that the drivers we know publish for a node,
// of each pool those of the newest generation only: older ones are about to be
// deleted.
func nodeSlicesOf(ctx context.Context, client kubernetes.Interface, node string) ([]resourceapi.ResourceSlice, error) {
	selector := fields.OneTermEqualSelector(resourceapi.ResourceSliceSelectorNodeName, node).String()
	var all []resourceapi.ResourceSlice
	list := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return client.ResourceV1().ResourceSlices().List(ctx, o)
	})
	newest := map[poolID]int64{}
	err := list.EachListItem(ctx, metav1.ListOptions{FieldSelector: selector}, func(item runtime.Object) error {
		s := item.(*resourceapi.ResourceSlice)
		if s.Spec.NodeName == nil || *s.Spec.NodeName != node || !slices.Contains(slicecodec.Drivers(), s.Spec.Driver) {
			return nil
		}
		id := poolID{s.Spec.Driver, s.Spec.Pool.Name}
		newest[id] = max(newest[id], s.Spec.Pool.Generation)
		all = append(all, *s)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the ResourceSlices of node %s: %w", node, err)
	}
	return slices.DeleteFunc(all, func(s resourceapi.ResourceSlice) bool {
		return s.Spec.Pool.Generation < newest[poolID{s.Spec.Driver, s.Spec.Pool.Name}]
	}), nil
}

// poolID names a pool: pools of two drivers may have one name.
type poolID struct{ driver, pool string }

// noSlices says why a node shows nothing: it may not be there at all.
func noSlices(ctx context.Context, client kubernetes.Interface, node string) error {
	if _, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		return fmt.Errorf("node %q is not in the cluster", node)
	}
	return fmt.Errorf("node %s has no ResourceSlice of %s: does plumbline-agent run there?", node, strings.Join(slicecodec.Drivers(), ", "))
}

// incomplete names the pools of which slices are missing.
func incomplete(published []resourceapi.ResourceSlice) []string {
	missing := map[poolID]int64{}
	for _, s := range published {
		id := poolID{s.Spec.Driver, s.Spec.Pool.Name}
		if _, seen := missing[id]; !seen {
			missing[id] = s.Spec.Pool.ResourceSliceCount
		}
		missing[id]--
	}
	var notes []string
	for _, driver := range slicecodec.Drivers() {
		for id, n := range missing {
			if id.driver == driver && n > 0 {
				notes = append(notes, fmt.Sprintf("%s is publishing pool %s just now: %s missing", id.driver, id.pool, topoview.Count(int(n), "slice is", "slices are")))
			}
		}
	}
	slices.Sort(notes)
	return notes
}

func listClaims(ctx context.Context, client kubernetes.Interface) ([]resourceapi.ResourceClaim, error) {
	var all []resourceapi.ResourceClaim
	list := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return client.ResourceV1().ResourceClaims(metav1.NamespaceAll).List(ctx, o)
	})
	err := list.EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
		claim, ok := item.(*resourceapi.ResourceClaim)
		if !ok {
			return errors.New("list ResourceClaims: the server answered with something else")
		}
		all = append(all, *claim)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list ResourceClaims: %w", err)
	}
	return all, nil
}
