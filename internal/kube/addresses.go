// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// AddressPoller asks for the node again: it may get another address, and what an
// agent kept of it may be old. A watch would need leave to list all nodes.
type AddressPoller struct {
	Client kubernetes.Interface
	// Config is the client's, for the API server's address.
	Config *rest.Config
	// Name is the node's, and File is where it is kept.
	Name, File string
	// Addresses are those of NeededAddresses as they are known now.
	Addresses []netip.Addr
	// Labels hears the node's labels as each answer has them; nil: nobody does.
	Labels func(map[string]string)

	kept map[string]string // labels that were kept last
}

// addressInterval is the time between two questions: a label takes as long to
// be heard, and a thousand nodes ask 17 times a second.
const addressInterval = time.Minute

// Run tells the addresses when they are others, until ctx ends. While the API
// server does not answer, the last ones stay true.
func (f *AddressPoller) Run(ctx context.Context, tell func([]netip.Addr)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(addressInterval):
		}
		f.ask(ctx, tell)
	}
}

func (f *AddressPoller) ask(ctx context.Context, tell func([]netip.Addr)) {
	attempt, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	node, err := f.Client.CoreV1().Nodes().Get(attempt, f.Name, metav1.GetOptions{})
	if err != nil {
		return
	}
	logger := klog.FromContext(ctx)
	moved := f.moved(ctx, node, tell)
	if !moved && f.kept != nil && maps.Equal(f.kept, node.Labels) {
		return
	}
	// Kept first: an agent that is killed after it acted on labels starts by these,
	// not by older ones, also while the API server is away.
	if err := keepNode(f.File, node); err != nil {
		logger.Error(err, "an agent that starts while the API server is away goes by what is kept")
	} else {
		f.kept = maps.Clone(node.Labels)
	}
	if f.Labels != nil {
		f.Labels(node.Labels)
	}
}

// moved tells the addresses where they are others.
func (f *AddressPoller) moved(ctx context.Context, node *corev1.Node, tell func([]netip.Addr)) bool {
	now := NeededAddresses(node, f.Config)
	if len(now) == 0 || slices.Equal(now, f.Addresses) {
		return false
	}
	klog.FromContext(ctx).Info("the node has other addresses; the links that own or lead to them are not offered", "were", f.Addresses, "are", now)
	f.Addresses = now
	tell(now)
	return true
}
