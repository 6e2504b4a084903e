// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"io"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plumbline.dev/plumbline/internal/kube"
	"plumbline.dev/plumbline/internal/operator/uninstall"
)

// RefuseHeld is uninstall.RefuseHeld of the cluster of a kubeconfig; empty is the pod's
// own.
func RefuseHeld(ctx context.Context, kubeconfig string, drivers []string, out io.Writer) error {
	c, err := hookClient(kubeconfig)
	if err != nil {
		return err
	}
	return uninstall.RefuseHeld(ctx, c, drivers, out)
}

// Cleanup is uninstall.Cleanup of the cluster of a kubeconfig; empty is the pod's own.
func Cleanup(ctx context.Context, kubeconfig string, l uninstall.Leftovers, out io.Writer) error {
	c, err := hookClient(kubeconfig)
	if err != nil {
		return err
	}
	l.Lease = Name
	return uninstall.Cleanup(ctx, c, l, out)
}

// hookClient asks the API server itself: a hook looks once.
func hookClient(kubeconfig string) (client.Client, error) {
	_, config, err := kube.ConnectAs(Name, kubeconfig)
	if err != nil {
		return nil, err
	}
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	if err := coordinationv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	c, err := client.New(anyContent(config), client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return c, nil
}
