// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"time"

	"k8s.io/client-go/kubernetes"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/topoview/published"
)

// askPlugins is how often a node that is watched is asked what its device plugins gave:
// no object of the cluster changes with it.
const askPlugins = 10 * time.Second

// nodeSource is where a node of a cluster is known from.
type nodeSource struct {
	client kubernetes.Interface
	agents cmdutil.Agents
	node   string
}

// nodeSource is the node that the flags name.
func (o *topoOptions) nodeSource() (nodeSource, error) {
	client, err := o.cluster.Client()
	if err != nil {
		return nodeSource{}, err
	}
	agents, err := cmdutil.AgentsOf(o.cluster, client, o.agents)
	return nodeSource{client: client, agents: agents, node: o.node}, err
}

// load views the node.
func (s nodeSource) load(ctx context.Context) (*published.View, error) {
	o, err := observe(ctx, s.client, s.node)
	if err != nil {
		return nil, err
	}
	v, err := s.view(ctx, o)
	if err != nil {
		return nil, err
	}
	if len(o.OfNode(s.node)) == 0 && len(v.Options.Plugins) == 0 {
		return nil, noSlices(ctx, s.client, s.node)
	}
	return v, nil
}

// view is the node with what its device plugins gave.
func (s nodeSource) view(ctx context.Context, o published.Cluster) (*published.View, error) {
	v, err := o.Node(s.node)
	if err == nil {
		s.addPlugins(ctx, v)
	}
	return v, err
}

// watch views the node whenever what is published or claimed changes, and again after a
// while for what device plugins gave. A node that withdraws everything is shown empty.
func (s nodeSource) watch(ctx context.Context) (<-chan *published.View, error) {
	if _, err := s.load(ctx); err != nil {
		return nil, err
	}
	changes, err := follow(ctx, s.client, s.node)
	if err != nil {
		return nil, err
	}
	views := make(chan *published.View)
	go func() {
		defer close(views)
		again := time.NewTicker(askPlugins)
		defer again.Stop()
		var now published.Cluster
		for {
			select {
			case next, more := <-changes:
				if !more {
					return
				}
				now = next
			case <-again.C:
			}
			v, err := s.view(ctx, now)
			if err != nil {
				continue // the next generation can be read again
			}
			select {
			case views <- v:
			case <-ctx.Done():
				return
			}
		}
	}()
	return views, nil
}
