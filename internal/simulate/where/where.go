// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package where finds the nodes to fill: of machine files, or of a cluster.
package where

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/nodeslices"
	"plumbline.dev/plumbline/internal/simulate"
	"plumbline.dev/plumbline/internal/topoview/published"
)

// UsageError is a machine or a node that was named wrongly.
type UsageError struct{ Err error }

func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e UsageError) Unwrap() error { return e.Err }

// Machine reads "NAME" or "NAME=COUNT". Nodes of one machine are alike, so
// one is filled for all. Extended resources that a class stands for are no device
// plugin's.
func Machine(ctx context.Context, arg string, classes map[string]*resourceapi.DeviceClass, errOut io.Writer) (simulate.Place, error) {
	name, count := arg, 1
	if before, after, ok := strings.Cut(arg, "="); ok {
		n, err := strconv.Atoi(after)
		if err != nil || n < 1 {
			return simulate.Place{}, UsageError{fmt.Errorf("--machine %q: want NAME or NAME=COUNT, the count 1 or more", arg)}
		}
		name, count = before, n
	}
	file, err := machine.Open(name)
	if err != nil {
		return simulate.Place{}, err
	}
	all, problems, err := nodeslices.OfFile(ctx, file, nodeslices.Options{})
	if err != nil {
		return simulate.Place{}, err
	}
	for _, p := range problems {
		fmt.Fprintln(errOut, "left out:", p)
	}
	var extended map[string]int
	if file.Facts != nil {
		extended = file.Facts.Kubernetes.ExtendedResources
	}
	return simulate.Place{Node: simulate.MachineNode(nodeslices.NodeName(file.Name), extended, classes), Count: count, Slices: all}, nil
}

// Pick says which nodes of a cluster are meant: all where both are empty.
type Pick struct {
	Names  []string
	Labels string
}

// Cluster is the nodes of the cluster with their slices. What its claims hold
// goes into the simulation, and its device classes and taint rules beside those
// that are there. errOut is told what cannot be read and is done without.
func Cluster(ctx context.Context, client kubernetes.Interface, pick Pick, simulation *simulate.Options, errOut io.Writer) ([]simulate.Place, error) {
	resources := client.ResourceV1()
	all, err := resources.ResourceSlices().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list ResourceSlices: %w", err)
	}
	claims, err := resources.ResourceClaims(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list ResourceClaims, to know what is free: %w", err)
	}
	simulation.Held = claims.Items
	classes, err := resources.DeviceClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list DeviceClasses: %w", err)
	}
	for i := range classes.Items {
		if c := &classes.Items[i]; simulation.Classes[c.Name] == nil {
			simulation.Classes[c.Name] = c
		}
	}
	rules, err := resources.DeviceTaintRules().List(ctx, metav1.ListOptions{})
	switch {
	case err == nil:
		for i := range rules.Items {
			simulation.Rules = append(simulation.Rules, &rules.Items[i])
		}
	case apierrors.IsForbidden(err):
		fmt.Fprintln(errOut, "without DeviceTaintRules, which may taint devices:", err)
	case !apierrors.IsNotFound(err): // before 1.37 there are none
		return nil, fmt.Errorf("list DeviceTaintRules: %w", err)
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: pick.Labels})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return pick.from(nodes.Items, all.Items)
}

// Published are the nodes that slices name, and those given; what else is known of the nodes may be missing.
func Published(all []resourceapi.ResourceSlice, nodes []corev1.Node) ([]simulate.Place, error) {
	known := map[string]bool{}
	for i := range nodes {
		known[nodes[i].Name] = true
	}
	for _, s := range all {
		if s.Spec.NodeName != nil && !known[*s.Spec.NodeName] {
			known[*s.Spec.NodeName] = true
			nodes = append(nodes, *simulate.MachineNode(*s.Spec.NodeName, nil, nil))
		}
	}
	return Pick{}.from(nodes, all)
}

// from joins nodes and their slices.
func (p Pick) from(nodes []corev1.Node, all []resourceapi.ResourceSlice) ([]simulate.Place, error) {
	c := published.Cluster{Slices: all}
	for _, name := range p.Names {
		if !slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.Name == name }) {
			return nil, UsageError{fmt.Errorf("node %q is not in the cluster", name)}
		}
	}
	var places []simulate.Place
	for i := range nodes {
		n := &nodes[i]
		if own := c.OfNode(n.Name); len(own) > 0 && (len(p.Names) == 0 || slices.Contains(p.Names, n.Name)) {
			places = append(places, simulate.Place{Node: n, Count: 1, Slices: own})
		}
	}
	if len(places) == 0 {
		return nil, errors.New("no such node publishes devices: does plumbline-agent run there?")
	}
	return places, nil
}
