// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/topoview/published"
)

// observe lists the slices of a node, or with "" of all nodes, and the claims.
func observe(ctx context.Context, client kubernetes.Interface, node string) (published.Cluster, error) {
	var c published.Cluster
	all, err := listSlices(ctx, client, node)
	if err != nil {
		return c, err
	}
	c.Slices = published.Current(all)
	c.Claims, err = listClaims(ctx, client)
	if apierrors.IsForbidden(err) {
		c.Unknown = cmdutil.OneLine(err)
		return c, nil
	}
	return c, err
}

func sliceSelector(node string) string {
	if node == "" {
		return ""
	}
	return fields.OneTermEqualSelector(resourceapi.ResourceSliceSelectorNodeName, node).String()
}

func listSlices(ctx context.Context, client kubernetes.Interface, node string) ([]resourceapi.ResourceSlice, error) {
	var all []resourceapi.ResourceSlice
	list := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return client.ResourceV1().ResourceSlices().List(ctx, o)
	})
	err := list.EachListItem(ctx, metav1.ListOptions{FieldSelector: sliceSelector(node)}, func(item runtime.Object) error {
		s, ok := item.(*resourceapi.ResourceSlice)
		if !ok {
			return errUnexpected
		}
		if node == "" || s.Spec.NodeName != nil && *s.Spec.NodeName == node {
			all = append(all, *s)
		}
		return nil
	})
	switch {
	case err != nil && node != "":
		return nil, fmt.Errorf("list the ResourceSlices of node %s: %w", node, err)
	case err != nil:
		return nil, fmt.Errorf("list ResourceSlices: %w", err)
	}
	return all, nil
}

var errUnexpected = errors.New("the server answered with something else")

// noSlices says why a node shows nothing: it may not be there at all.
func noSlices(ctx context.Context, client kubernetes.Interface, node string) error {
	if _, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		return fmt.Errorf("node %q is not in the cluster", node)
	}
	return fmt.Errorf("node %s has no ResourceSlice of GPUs, NICs or CPUs: does plumbline-agent, or another driver, run there?", node)
}

func listClaims(ctx context.Context, client kubernetes.Interface) ([]resourceapi.ResourceClaim, error) {
	var all []resourceapi.ResourceClaim
	list := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return client.ResourceV1().ResourceClaims(metav1.NamespaceAll).List(ctx, o)
	})
	err := list.EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
		claim, ok := item.(*resourceapi.ResourceClaim)
		if !ok {
			return errUnexpected
		}
		all = append(all, *claim)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list ResourceClaims: %w", err)
	}
	return all, nil
}

// listNodes lists the names of the nodes that labels select.
func listNodes(ctx context.Context, client kubernetes.Interface, labels string) ([]string, error) {
	var names []string
	list := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return client.CoreV1().Nodes().List(ctx, o)
	})
	err := list.EachListItem(ctx, metav1.ListOptions{LabelSelector: labels}, func(item runtime.Object) error {
		n, ok := item.(*corev1.Node)
		if !ok {
			return errUnexpected
		}
		names = append(names, n.Name)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return names, nil
}
