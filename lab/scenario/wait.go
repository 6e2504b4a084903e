// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"plumbline.dev/plumbline/lab/scenario/await"
)

// poll asks until the answer is yes, an error, or the time is up.
func poll(ctx context.Context, ask func() (bool, error)) error {
	return await.Until(ctx, time.Second, wait, ask)
}

// waitForPod waits until a pod is Ready, and where it does not become so says
// what Kubernetes said about it.
func (d Demo) waitForPod(ctx context.Context, namespace, pod string) error {
	_, err := d.Kubectl.Run(ctx, "wait", "-n", namespace, "--for=condition=Ready", "pod/"+pod, "--timeout="+wait.String())
	if err == nil {
		return nil
	}
	events, _ := d.Kubectl.Run(ctx, "events", "-n", namespace, "--for", "pod/"+pod)
	return fmt.Errorf("pod %s did not become ready: %w\n%s", pod, err, events)
}

// mission are the objects that the demo applies, pods before what they hold.
// Device classes stay: they are as the documents and deploy/ have them.
var mission = [][]string{
	{
		"pod", "aligned-gpu-nic-cpu-pod", "misaligned-gpu-nic-cpu-pod",
		"h100-numa-aligned", "h100-numa-unaligned", "nccl-test-dranet-worker-0", unschedulable,
	},
	{"resourceclaim", "aligned-resource-claim", "misaligned-resource-claim", unschedulable},
	{
		"resourceclaimtemplate", "h100-4gpu-4nic-numa-aligned", "h100-4gpu-4nic-numa-unaligned",
		"mpi-worker-rdma-nic-template",
	},
}

// deleteMission removes the mission's objects and waits until they are gone.
func (d Demo) deleteMission(ctx context.Context) error {
	for _, objects := range mission {
		if err := d.delete(ctx, "default", objects); err != nil {
			return err
		}
	}
	return nil
}

// cleanUp removes everything of the demo's own.
func (d Demo) cleanUp(ctx context.Context) error {
	return errors.Join(d.deleteMission(ctx), d.stopProbe(ctx))
}

func (d Demo) stopProbe(ctx context.Context) error {
	return d.delete(ctx, probeNamespace, []string{"pod", probePod})
}

func (d Demo) delete(ctx context.Context, namespace string, objects []string) error {
	args := append([]string{"delete"}, objects...)
	_, err := d.Kubectl.Run(ctx, append(args, "-n", namespace, "--ignore-not-found", "--wait=true", "--timeout="+wait.String())...)
	return err
}
