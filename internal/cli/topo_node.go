// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"k8s.io/client-go/kubernetes"

	"plumbline.dev/plumbline/internal/topoview/published"
)

// loadNode views a node of a cluster.
func loadNode(ctx context.Context, client kubernetes.Interface, node string) (*published.View, error) {
	o, err := observe(ctx, client, node)
	if err != nil {
		return nil, err
	}
	if len(o.OfNode(node)) == 0 {
		return nil, noSlices(ctx, client, node)
	}
	return o.Node(node)
}

// watchNode views a node whenever what is published or claimed changes. A node
// that withdraws everything is shown empty.
func watchNode(ctx context.Context, client kubernetes.Interface, node string) (<-chan *published.View, error) {
	if _, err := loadNode(ctx, client, node); err != nil {
		return nil, err
	}
	changes, err := follow(ctx, client, node)
	if err != nil {
		return nil, err
	}
	views := make(chan *published.View)
	go func() {
		defer close(views)
		for o := range changes {
			v, err := o.Node(node)
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
