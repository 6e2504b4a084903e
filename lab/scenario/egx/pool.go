// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package egx

import (
	"context"
	"errors"
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/lab/scenario/harness"
)

// used waits until the pool says how many addresses are in use.
func (r *run) used(ctx context.Context, want string) error {
	err := r.awaitPool(ctx, "{.status.used}", want)
	if err == nil {
		r.report.Finding(true, "the pool says", "%s in use", want)
	}
	return err
}

// awaitPool waits until a field of the pool is so.
func (r *run) awaitPool(ctx context.Context, field, want string) error {
	var got string
	err := harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		var err error
		got, err = r.Kubectl.Run(ctx, "get", "networkaddresspool", poolName, "-o", "jsonpath="+field)
		return got == want, err
	})
	if errors.Is(err, harness.ErrTimeout) {
		whole, _ := r.Kubectl.Run(ctx, "get", "networkaddresspools,networkaddressblocks", "-o", "yaml")
		return fmt.Errorf("NetworkAddressPool %s: %s is %q, want %q: %w\n%s", poolName, field, got, want, err, whole)
	}
	return err
}

// drain deletes the pool, which stays while pods have addresses of it.
func (r *run) drain(ctx context.Context) error {
	if err := r.endPod(ctx, secondPod); err != nil {
		return err
	}
	if _, err := r.Kubectl.Run(ctx, "delete", "networkaddresspool", "--wait=false", poolName); err != nil {
		return err
	}
	if err := r.used(ctx, "1"); err != nil {
		return err
	}
	if err := r.endPod(ctx, firstPod); err != nil {
		return err
	}
	err := harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		left, err := r.Kubectl.Run(ctx, "get", "networkaddresspools,networkaddressblocks", "-o", "name")
		return strings.TrimSpace(left) == "", err
	})
	if err != nil && !errors.Is(err, harness.ErrTimeout) {
		return err
	}
	r.report.Finding(err == nil, "the pool is drained", "it stayed while a pod had an address, and has gone with its blocks")
	return nil
}

func (r *run) endPod(ctx context.Context, pod string) error {
	if err := harness.DeletePod(ctx, r.Client, namespace, pod, 1); err != nil {
		return err
	}
	return harness.WaitFor(ctx, poll, patience, func() (bool, error) { return harness.PodGone(ctx, r.Client, namespace, pod) })
}

// end has all of it gone, and the node as before.
func (r *run) end(ctx context.Context, before string) error {
	if err := r.cleanUp(ctx); err != nil {
		return err
	}
	_, err := r.awaitDevice(ctx, func(d resourceapi.Device) bool {
		_, shared := d.Attributes[slicecodec.AttrShared]
		return d.AllowMultipleAllocations == nil && !shared
	})
	if err != nil && !errors.Is(err, harness.ErrTimeout) {
		return err
	}
	var after string
	same := harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		var err error
		after, err = r.onHost(ctx)
		return after == before, err
	})
	if same != nil && !errors.Is(same, harness.ErrTimeout) {
		return same
	}
	r.report.Finding(err == nil && same == nil, "in the end", "%s is offered whole, and the node is as before", r.link)
	if same != nil {
		fmt.Fprintf(r.Out, "before:\n%safter:\n%s", before, after)
	}
	return nil
}
