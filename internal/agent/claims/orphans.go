// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/driver"
)

// sweepInterval is the time between two looks while nobody waits for a device. A kubelet that
// knows a claim unprepares it long before: at once, or within a minute where it was
// restarted and the pod deleted without grace (pkg/kubelet/cm/dra, reconcilePeriod).
const sweepInterval = 10 * time.Minute

// OrphanSweeper unprepares claims that are gone before the kubelet asks for it: one
// whose state was wiped, as by kubeadm reset, never does, and their devices would be
// held for as long as the journal lies there; one that was restarted does so late.
type OrphanSweeper struct {
	Client    kubernetes.Interface
	Preparers []*Preparer
	// Lives says whether a pod may run on the node, by the API server's word or the
	// container runtime's.
	Lives func(pod types.UID) bool
	// Ready says why it is not known what runs, or nil.
	Ready func() error
	// Wanted has a value when a claim waits for what others hold.
	Wanted <-chan struct{}
}

// Run looks until ctx ends.
func (s *OrphanSweeper) Run(ctx context.Context) {
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.Wanted:
		}
		if err := s.sweep(ctx); err != nil {
			klog.FromContext(ctx).Info("not looked for claims that are gone; comes again", "reason", err.Error())
		}
	}
}

// sweep asks for every claim none of whose pods is there.
func (s *OrphanSweeper) sweep(ctx context.Context) error {
	if err := s.Ready(); err != nil {
		return err
	}
	for _, p := range s.Preparers {
		records, _, err := p.Journal.List(p.Name())
		if err != nil {
			return err
		}
		for _, r := range records {
			if slices.ContainsFunc(r.Pods, func(pod driver.PodRef) bool { return s.Lives(pod.UID) }) {
				continue
			}
			gone, err := s.gone(ctx, r.Claim)
			if err != nil {
				return err
			}
			if !gone {
				continue
			}
			klog.FromContext(ctx).Info("claim is gone, and the kubelet has not unprepared it", "driver", p.Name(), "claim", r.Claim.String(), "claimUID", r.Claim.UID)
			if err := p.Unprepare(ctx, r.Claim); err != nil {
				klog.FromContext(ctx).Error(err, "will be tried again", "driver", p.Name(), "claim", r.Claim.String())
			}
		}
	}
	return nil
}

// gone says whether the API server has no such claim. One that a pod uses cannot be
// deleted (resource.kubernetes.io/delete-protection).
func (s *OrphanSweeper) gone(ctx context.Context, c driver.ClaimRef) (bool, error) {
	now, err := s.Client.ResourceV1().ResourceClaims(c.Namespace).Get(ctx, c.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("read claim %s: %w", c, err)
	}
	return now.UID != c.UID, nil
}
