// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plumbline.dev/plumbline/internal/operator/nodestatus"
)

// Leftovers are what stays of an installation in its namespace after Helm has deleted
// what it brought.
type Leftovers struct {
	// Namespace is the installation's.
	Namespace string
	// Lease is that of the operator's leader; none is fine.
	Lease string
	// DaemonSet has a pod on every host that is Ready once the host is clean; empty
	// where none cleans.
	DaemonSet string
	// Patience is how long hosts may take.
	Patience time.Duration
}

// lookAgain is the time between two looks at the hosts.
const lookAgain = time.Second

// ErrHostsLeft says that hosts were not cleaned in time.
var ErrHostsLeft = errors.New("not every host is clean")

// Cleanup takes conditions and labels off all nodes, deletes the Lease, and waits for the
// hosts. It tells of each. No agent and no operator may run. Killed anywhere and started
// anew, it does the rest.
func Cleanup(ctx context.Context, c client.Client, l Leftovers, out io.Writer) error {
	if err := nodestatus.Cleanup(ctx, c, out); err != nil {
		return err
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: l.Lease}}
	if err := c.Delete(ctx, lease); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Lease %s/%s: %w", l.Namespace, l.Lease, err)
	}
	if l.DaemonSet == "" {
		return nil
	}
	return waitForHosts(ctx, c, l, out)
}

func waitForHosts(ctx context.Context, c client.Client, l Leftovers, out io.Writer) error {
	var set appsv1.DaemonSet
	err := wait.PollUntilContextTimeout(ctx, lookAgain, l.Patience, true, func(ctx context.Context) (bool, error) {
		if err := c.Get(ctx, client.ObjectKey{Namespace: l.Namespace, Name: l.DaemonSet}, &set); err != nil {
			return false, fmt.Errorf("read DaemonSet %s/%s: %w", l.Namespace, l.DaemonSet, err)
		}
		seen := set.Status.ObservedGeneration >= set.Generation
		return seen && set.Status.NumberReady >= set.Status.DesiredNumberScheduled, nil
	})
	ready, all := set.Status.NumberReady, set.Status.DesiredNumberScheduled
	if wait.Interrupted(err) {
		return fmt.Errorf("%w: %d of %d after %s; on the others the directory /var/lib/plumbline stays, "+
			"because the node is away or a claim is prepared there (the log of its pod of DaemonSet %s says which)",
			ErrHostsLeft, ready, all, l.Patience, l.DaemonSet)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%d of %d hosts are clean\n", ready, all)
	return err
}
