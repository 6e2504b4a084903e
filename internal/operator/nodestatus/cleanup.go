// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"context"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plumbline.dev/plumbline/internal/plural"
)

// pageSize is how many nodes are asked for at a time.
const pageSize = 250

// Cleanup takes our conditions and labels off all nodes, and tells of each that had
// any. The controller must not run: it would write them again.
func Cleanup(ctx context.Context, c client.Client, out io.Writer) error {
	r := &reconciler{client: c, now: time.Now}
	cleaned := 0
	for from := ""; ; {
		var page corev1.NodeList
		if err := c.List(ctx, &page, client.Limit(pageSize), client.Continue(from)); err != nil {
			return fmt.Errorf("list nodes: %w", err)
		}
		for i := range page.Items {
			changed, err := r.update(ctx, &page.Items[i], nil, nil)
			if client.IgnoreNotFound(err) != nil {
				return err
			}
			if changed {
				cleaned++
				fmt.Fprintf(out, "node %s: conditions and labels taken off\n", page.Items[i].Name)
			}
		}
		if from = page.Continue; from == "" {
			_, err := fmt.Fprintf(out, "%s had conditions or labels of plumbline\n", plural.Count(cleaned, "node", "nodes"))
			return err
		}
	}
}
