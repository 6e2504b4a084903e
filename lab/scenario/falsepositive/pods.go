// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package falsepositive

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

// namespace holds everything of a run.
const namespace = "plumblab-alarms"

// Templates of claims: a NIC alone, and with it the one CPU that a small node has
// to give.
const (
	nicTemplate = "nic"
	cpuTemplate = "nic-and-cpu"
	claimName   = "devices"
)

// kind is what happens to a pod between its creation and its end.
type kind string

// The kinds.
const (
	// waits until it is deleted, and starts a process every tenth of a second.
	waits kind = "waits, with short processes"
	// endsItself is done before anybody deletes it.
	endsItself kind = "ends itself"
	// crashes fails, and is started again.
	crashes kind = "crashes and is restarted"
	// beginsTwice has an init container before it, which names the claim too.
	beginsTwice kind = "has an init container"
	// hasCompany has a container that names no claim.
	hasCompany kind = "has a second container"
	// isEntered has processes started in it by exec all the time.
	isEntered kind = "is entered by exec"
	// isForced is deleted without waiting for the node.
	isForced kind = "is force-deleted"
	// neverRuns is deleted while it starts.
	neverRuns kind = "is deleted while it starts"
)

var kinds = []kind{waits, endsItself, crashes, beginsTwice, hasCompany, isEntered, isForced, neverRuns}

// Commands of the containers.
const (
	short  = `trap exit TERM; while :; do sleep 0.1; done`
	ending = `sleep 1.$(($(date +%s) % 10))`
	crash  = `sleep 0.5; exit 1`
)

// life is one pod's.
type life struct {
	number int
	kind   kind
	// cpu says that it has a CPU of its own beside its NIC.
	cpu bool
	// runsFor is how long it runs before it is deleted; one that never runs is deleted
	// so long after its creation.
	runsFor time.Duration
}

func (l life) name() string { return fmt.Sprintf("short-%d", l.number) }

// maxRunsFor is twice the interval at which the lab's agents verify: many pods are
// verified once, some twice, some never.
const maxRunsFor = 2 * time.Second

// plan has as many pods of every kind; only the first lane's have CPUs, of which a
// small node has one to give.
func plan(seed uint64, n, lanes int) [][]life {
	random := rand.New(rand.NewPCG(seed, 0))
	out := make([][]life, lanes)
	for i := range n {
		lane := i % lanes
		out[lane] = append(out[lane], life{
			number: i + 1, kind: kinds[(i/lanes+lane)%len(kinds)], cpu: lane == 0,
			runsFor: time.Duration(random.Int64N(int64(maxRunsFor))).Round(10 * time.Millisecond),
		})
	}
	return out
}

func (r *run) setUp(ctx context.Context) error {
	if err := harness.CreateNamespace(ctx, r.Client, namespace); err != nil {
		return err
	}
	nic, cpu := harness.RequestNIC(), harness.RequestCPU()
	for name, requests := range map[string][]resourceapi.DeviceRequest{nicTemplate: {nic}, cpuTemplate: {nic, cpu}} {
		if err := harness.CreateTemplate(ctx, r.Client, namespace, name, resourceapi.DeviceClaim{Requests: requests}); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) manifest(l life) *corev1.Pod {
	template := nicTemplate
	if l.cpu {
		template = cpuTemplate
	}
	pod := r.Pod(namespace, l.name(), "sh", "-c", short)
	harness.AddClaim(pod, corev1.PodResourceClaim{Name: claimName, ResourceClaimTemplateName: &template})
	main := &pod.Spec.Containers[0]
	switch l.kind {
	case endsItself:
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		main.Command[2] = ending
	case crashes:
		main.Command[2] = crash
	case beginsTwice:
		pod.Spec.InitContainers = []corev1.Container{r.Container("before", "sh", "-c", "sleep 1")}
		pod.Spec.InitContainers[0].Resources.Claims = main.Resources.Claims
	case hasCompany:
		pod.Spec.Containers = append(pod.Spec.Containers, r.Container("company", "sh", "-c", short))
	case isEntered:
		enter := &corev1.ExecAction{Command: []string{"sh", "-c", "sleep 0.3"}}
		main.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: enter}}
		main.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: enter}, PeriodSeconds: 1}
		main.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: enter}, PeriodSeconds: 1}
	}
	return pod
}

// hasRun says whether a pod runs, or has.
func hasRun(p *corev1.Pod) bool {
	switch p.Status.Phase {
	case corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed:
		return true
	}
	return false
}
