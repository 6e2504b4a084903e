// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"plumbline.dev/plumbline/internal/explain"
	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/nodeslices"
	"plumbline.dev/plumbline/internal/topoview/published"
)

// NodeGroup is a node to fill, or several alike.
type NodeGroup struct {
	// Node may lack labels; then claims that select by them do not fit. What its device
	// plugins offer is all free.
	Node *corev1.Node
	// Count is how many nodes there are of the kind; 1 for a real one.
	Count int
	// Slices are those of the node.
	Slices []resourceapi.ResourceSlice
}

// UsageError is a machine or a node that was named wrongly.
type UsageError struct{ Err error }

func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e UsageError) Unwrap() error { return e.Err }

// FromMachine makes nodes of "NAME" or "NAME=COUNT". Nodes of one machine are alike,
// so one is filled for all. Extended resources that a class stands for are no device
// plugin's.
func FromMachine(ctx context.Context, arg string, classes map[string]*resourceapi.DeviceClass, errOut io.Writer) (NodeGroup, error) {
	name, count := arg, 1
	if before, after, ok := strings.Cut(arg, "="); ok {
		n, err := strconv.Atoi(after)
		if err != nil || n < 1 {
			return NodeGroup{}, UsageError{fmt.Errorf("--machine %q: want NAME or NAME=COUNT, the count 1 or more", arg)}
		}
		name, count = before, n
	}
	file, err := machine.Open(name)
	if err != nil {
		return NodeGroup{}, err
	}
	all, problems, err := nodeslices.OfFile(ctx, file, nodeslices.Options{})
	if err != nil {
		return NodeGroup{}, err
	}
	for _, p := range problems {
		fmt.Fprintln(errOut, "left out:", p)
	}
	var extended map[string]int
	if file.Facts != nil {
		extended = file.Facts.Kubernetes.ExtendedResources
	}
	return NodeGroup{Node: MachineNode(nodeslices.NodeName(file.Name), extended, classes), Count: count, Slices: all}, nil
}

// NodeFilter says which nodes of a cluster are meant: all where both are empty.
type NodeFilter struct {
	Names  []string
	Labels string
}

// FromCluster is the nodes of the cluster with their slices. What its claims hold
// goes into the simulation, and its device classes and taint rules beside those
// that are there. What cannot be read and is not needed is warned of on errOut.
func FromCluster(ctx context.Context, client kubernetes.Interface, filter NodeFilter, o *Options, errOut io.Writer) ([]NodeGroup, error) {
	resources := client.ResourceV1()
	all, err := resources.ResourceSlices().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list ResourceSlices: %w", err)
	}
	claims, err := resources.ResourceClaims(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list ResourceClaims, to know what is free: %w", err)
	}
	o.Held = claims.Items
	classes, err := resources.DeviceClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list DeviceClasses: %w", err)
	}
	for i := range classes.Items {
		if c := &classes.Items[i]; o.Classes[c.Name] == nil {
			o.Classes[c.Name] = c
		}
	}
	rules, err := resources.DeviceTaintRules().List(ctx, metav1.ListOptions{})
	switch {
	case err == nil:
		for i := range rules.Items {
			o.Rules = append(o.Rules, &rules.Items[i])
		}
	case apierrors.IsForbidden(err):
		fmt.Fprintln(errOut, "without DeviceTaintRules, which may taint devices:", err)
	case !apierrors.IsNotFound(err): // before 1.37 there are none
		return nil, fmt.Errorf("list DeviceTaintRules: %w", err)
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: filter.Labels})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return filter.join(nodes.Items, all.Items)
}

// FromSlices are the nodes that slices name, and those given; what else is known of the
// nodes may be missing.
func FromSlices(all []resourceapi.ResourceSlice, nodes []corev1.Node) ([]NodeGroup, error) {
	known := map[string]bool{}
	for i := range nodes {
		known[nodes[i].Name] = true
	}
	for _, s := range all {
		if s.Spec.NodeName != nil && !known[*s.Spec.NodeName] {
			known[*s.Spec.NodeName] = true
			nodes = append(nodes, *MachineNode(*s.Spec.NodeName, nil, nil))
		}
	}
	return NodeFilter{}.join(nodes, all)
}

// join makes groups of nodes and their slices.
func (f NodeFilter) join(nodes []corev1.Node, all []resourceapi.ResourceSlice) ([]NodeGroup, error) {
	c := published.Cluster{Slices: all}
	for _, name := range f.Names {
		if !slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.Name == name }) {
			return nil, UsageError{fmt.Errorf("node %q is not in the cluster", name)}
		}
	}
	var groups []NodeGroup
	for i := range nodes {
		n := &nodes[i]
		if own := c.OfNode(n.Name); len(own) > 0 && (len(f.Names) == 0 || slices.Contains(f.Names, n.Name)) {
			groups = append(groups, NodeGroup{Node: n, Count: 1, Slices: own})
		}
	}
	if len(groups) == 0 {
		return nil, errors.New("no such node publishes devices: does plumbline-agent run there?")
	}
	return groups, nil
}

// MachineNode is a node of a machine of which a file says what its device plugins
// offer; nil is unknown. What a class stands for is offered by a DRA driver in their
// place.
func MachineNode(name string, extended map[string]int, classes map[string]*resourceapi.DeviceClass) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	if extended == nil {
		return node
	}
	node.Status.Allocatable = corev1.ResourceList{}
	for resourceName, n := range extended {
		if explain.ClassOf(resourceName, classes) != "" {
			continue
		}
		node.Status.Allocatable[corev1.ResourceName(resourceName)] = *resource.NewQuantity(int64(n), resource.DecimalSI)
	}
	return node
}
