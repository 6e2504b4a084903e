// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package egx

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

// gpuTemplate is the claim of the pods with a GPU.
const (
	gpuTemplate              = "rdma-gpu"
	firstGPUPod, otherGPUPod = "rdma-gpu-test-pod-1", "rdma-gpu-test-pod-2"
)

// gpus are the article's other two pods, and the GPU of the NIC's NUMA node, of which the
// machine has one: on one node they run one after the other.
func (r *run) gpus(ctx context.Context) error {
	if err := r.withGPU(ctx, firstGPUPod); err != nil {
		return err
	}
	if err := r.apply(ctx, "Pod "+otherGPUPod); err != nil {
		return err
	}
	if err := r.explained(ctx, otherGPUPod); err != nil {
		return err
	}
	if err := r.endPod(ctx, firstGPUPod); err != nil {
		return err
	}
	if err := r.withGPU(ctx, otherGPUPod); err != nil {
		return err
	}
	return r.endPod(ctx, otherGPUPod)
}

// withGPU creates a pod, and wants its GPU to be of the NIC's NUMA node by what the kernel
// says, which plumbline verify reads.
func (r *run) withGPU(ctx context.Context, pod string) error {
	if err := r.started(ctx, pod); err != nil {
		return err
	}
	if err := r.ping(ctx, pod, r.addresses[firstPod]); err != nil {
		return err
	}
	return r.verified(ctx, pod)
}

// explained wants plumbline to say why a pod with a GPU waits.
func (r *run) explained(ctx context.Context, pod string) error {
	var line string
	err := harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		answer, err := r.Plumbline.Run(ctx, "explain", "pod/"+pod, "-n", namespace)
		line = ""
		for l := range strings.Lines(answer.Out) {
			if strings.Contains(l, "numaNode") {
				line = strings.TrimSpace(l)
				break
			}
		}
		return answer.Code == 1 && line != "", err
	})
	if err != nil && !errors.Is(err, harness.ErrTimeout) {
		return fmt.Errorf("explain pod %s: %w", pod, err)
	}
	r.report.Finding(err == nil, pod+" waits", "%s", line)
	return nil
}
