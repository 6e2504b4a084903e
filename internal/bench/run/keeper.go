// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/bench/plan"
)

// beat is how often the keeper's deadline is put off. Three may fail in a row.
const beat = plan.Lease / 4 * time.Second

// create makes all objects of a plan, the keeper first.
func (r *Runner) create(ctx context.Context, p *plan.Plan) error {
	namespace := p.Keeper.Namespace
	keeper, err := r.Client.BatchV1().Jobs(namespace).Create(ctx, p.Keeper, metav1.CreateOptions{})
	if refused(err) {
		return fmt.Errorf("create job %s/%s: %w: %w", namespace, p.Keeper.Name, errNothingMade, err)
	}
	if err != nil {
		return fmt.Errorf("create job %s/%s: %w", namespace, p.Keeper.Name, err)
	}
	p.Own(keeper.UID)
	for _, side := range p.Sides() {
		if _, err := r.Client.ResourceV1().ResourceClaims(namespace).Create(ctx, side.Claim, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create resource claim %s/%s: %w", namespace, side.Claim.Name, err)
		}
	}
	for _, side := range p.Sides() {
		if _, err := r.Client.CoreV1().Pods(namespace).Create(ctx, side.Pod, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create pod %s/%s: %w", namespace, side.Pod.Name, err)
		}
	}
	return nil
}

// errNothingMade is of a keeper that was refused: whoever may not make it need not look for
// what is left, and may well not look.
var errNothingMade = errors.New("nothing was made")

// refused says whether an object was certainly not made: the API server answered no, or was
// not reached. One that is there already may be ours, of an answer that was lost.
func refused(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		code := status.Status().Code
		return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusConflict
	}
	var dialled *net.OpError
	return errors.As(err, &dialled) && dialled.Op == "dial"
}

// keep puts the keeper's deadline off until the context ends. Kubernetes counts it from the
// job's start, which is after it was made; so no clock but this one is read.
func (r *Runner) keep(ctx context.Context, p *plan.Plan, began time.Time) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		patch := fmt.Appendf(nil, `{"spec":{"activeDeadlineSeconds":%d}}`, int64(math.Ceil(r.Now().Sub(began).Seconds()))+plan.Lease)
		if _, err := r.Client.BatchV1().Jobs(p.Keeper.Namespace).Patch(ctx, p.Keeper.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil && ctx.Err() == nil {
			r.Progress(fmt.Sprintf("put off the deadline of job %s: %v", p.Keeper.Name, err))
		}
	}
}

// takeAway deletes what has the run's label, and waits until all of it is gone. It asks for
// what there is and not for what was made: an answer that was lost may have been a yes.
func (r *Runner) takeAway(ctx context.Context, p *plan.Plan) error {
	ctx, cancel := context.WithTimeout(ctx, r.Patience)
	defer cancel()
	var left []string
	var failed error
	err := wait.PollUntilContextCancel(ctx, r.Poll, true, func(ctx context.Context) (bool, error) {
		left, failed = r.deleteAll(ctx, p.Keeper.Namespace, p.Keeper.Name)
		return failed == nil && len(left) == 0, nil // a request that failed is made again
	})
	switch {
	case err == nil:
		return nil
	case failed != nil:
		return fmt.Errorf("%w: %w", ErrLeft, failed)
	}
	return fmt.Errorf("%w: %s; \"kubectl delete job,pod,resourceclaim -n %s -l %s=%s\" tries again",
		ErrLeft, strings.Join(left, ", "), p.Keeper.Namespace, plan.Label, p.Keeper.Name)
}

// deleteAll deletes the objects of a run that are not going yet, and names those that are
// there. The keeper goes last: whoever is stopped here leaves the rest to it.
func (r *Runner) deleteAll(ctx context.Context, namespace, run string) (left []string, err error) {
	these := metav1.ListOptions{LabelSelector: plan.Label + "=" + run}
	options := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
	pods, err := r.Client.CoreV1().Pods(namespace).List(ctx, these)
	if err != nil {
		return nil, fmt.Errorf("list pods of %s: %w", run, err)
	}
	claims, err := r.Client.ResourceV1().ResourceClaims(namespace).List(ctx, these)
	if err != nil {
		return nil, fmt.Errorf("list resource claims of %s: %w", run, err)
	}
	jobs, err := r.Client.BatchV1().Jobs(namespace).List(ctx, these)
	if err != nil {
		return nil, fmt.Errorf("list jobs of %s: %w", run, err)
	}
	remove := func(kind string, o metav1.Object, by func(context.Context, string, metav1.DeleteOptions) error) {
		left = append(left, kind+" "+o.GetName())
		if o.GetDeletionTimestamp() != nil {
			return
		}
		if failed := by(ctx, o.GetName(), options); failed != nil && !apierrors.IsNotFound(failed) && err == nil {
			err = fmt.Errorf("delete %s %s/%s: %w", kind, namespace, o.GetName(), failed)
		}
	}
	for i := range pods.Items {
		remove("pod", &pods.Items[i], r.Client.CoreV1().Pods(namespace).Delete)
	}
	for i := range claims.Items {
		remove("resourceclaim", &claims.Items[i], r.Client.ResourceV1().ResourceClaims(namespace).Delete)
	}
	for i := range jobs.Items {
		remove("job", &jobs.Items[i], r.Client.BatchV1().Jobs(namespace).Delete)
	}
	slices.Sort(left)
	return left, err
}
