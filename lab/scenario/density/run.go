// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package density

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

// Pods is how many there are: what a kubelet takes by default, less the system's.
const Pods = 100

// Cost is what a hundred pods cost the agent.
type Cost struct {
	// CPUSeconds is the processor time that one verification of all pods takes, with
	// everything else that the agent does meanwhile; the mean of Verifications.
	CPUSeconds    float64
	Verifications int
}

// Share is how much of one processor it takes to verify every so often, in percent.
func (c Cost) Share(every time.Duration) float64 { return c.CPUSeconds / every.Seconds() * 100 }

// namespace holds everything of a run.
const namespace = "plumblab-density"

const templateName = "nic"

// patience is how long the pods may take to run, settle how long the agent is left
// alone then, window over how long its processor time is measured.
const (
	patience = 15 * time.Minute
	settle   = 10 * time.Second
	window   = 60 * time.Second
)

type run struct{ harness.Cluster }

// Measure starts the pods, reads what the agent spends, and leaves nothing of its
// own.
func Measure(ctx context.Context, c harness.Cluster) (cost Cost, err error) {
	r := &run{c}
	err = harness.Run(ctx, patience, r.cleanUp, func(ctx context.Context) error {
		cost, err = r.measure(ctx)
		return err
	})
	return cost, err
}

func (r *run) measure(ctx context.Context) (cost Cost, err error) {
	if err := r.start(ctx); err != nil {
		return cost, err
	}
	if err := harness.Sleep(ctx, settle); err != nil {
		return cost, err
	}
	before, err := r.agentUsage(ctx)
	if err != nil {
		return cost, err
	}
	if err := harness.Sleep(ctx, window); err != nil {
		return cost, err
	}
	after, err := r.agentUsage(ctx)
	if err != nil {
		return cost, err
	}
	if before.pid != after.pid || after.verifications <= before.verifications {
		return cost, fmt.Errorf("the agent was process %d after %d verifications and is %d after %d: want the same one, and more verifications", before.pid, before.verifications, after.pid, after.verifications)
	}
	cost.Verifications = after.verifications - before.verifications
	cost.CPUSeconds = (after.seconds - before.seconds) / float64(cost.Verifications)
	return cost, nil
}

// start makes the links and the pods, and waits until the agent reports all of them as claimed.
func (r *run) start(ctx context.Context) error {
	if _, err := r.Shell(ctx, addLinks, fmt.Sprint(Pods)); err != nil {
		return fmt.Errorf("make stand-ins: %w", err)
	}
	if err := harness.CreateNamespace(ctx, r.Client, namespace); err != nil {
		return err
	}
	nic := resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{harness.RequestNIC()}}
	if err := harness.CreateTemplate(ctx, r.Client, namespace, templateName, nic); err != nil {
		return err
	}
	for i := range Pods {
		if _, err := r.Client.CoreV1().Pods(namespace).Create(ctx, r.pod(i), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	progress := harness.NewProgress(r.Out)
	err := harness.WaitFor(ctx, time.Second, patience, func() (bool, error) {
		claims, err := r.Client.ResourceV1().ResourceClaims(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		n := countAsClaimed(claims.Items)
		progress.Done(n, Pods)
		return n == Pods, nil
	})
	if err != nil {
		return fmt.Errorf("wait until %d pods run and are reported as claimed: %w", Pods, err)
	}
	return nil
}

// countAsClaimed counts the claims whose pods the agent reports as claimed.
func countAsClaimed(claims []resourceapi.ResourceClaim) int {
	n := 0
	for _, c := range claims {
		for _, d := range c.Status.Devices {
			for _, condition := range d.Conditions {
				if condition.Type == "AsClaimed" && condition.Status == metav1.ConditionTrue {
					n++
				}
			}
		}
	}
	return n
}

func (r *run) pod(i int) *corev1.Pod {
	pod := r.Pod(namespace, fmt.Sprintf("one-of-many-%d", i), "sleep", "100000")
	harness.AddClaim(pod, corev1.PodResourceClaim{Name: "devices", ResourceClaimTemplateName: ptr.To(templateName)})
	return pod
}

// cleanUp removes what a run makes. Links go last: pods give theirs back first.
func (r *run) cleanUp(ctx context.Context) error {
	if err := harness.DeleteNamespace(ctx, r.Client, namespace, patience); err != nil {
		return err
	}
	if out, err := r.Shell(ctx, removeLinks); err != nil {
		return fmt.Errorf("remove stand-ins: %w: %s", err, strings.TrimSpace(out))
	}
	return nil
}
