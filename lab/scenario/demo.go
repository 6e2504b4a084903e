// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"plumbline.dev/plumbline/lab/scenario/claimcheck"
	"plumbline.dev/plumbline/lab/scenario/harness"
)

// Demo is the main job: the mission's manifests on a cluster that runs.
type Demo struct {
	Kubectl Kubectl
	// Node is the virtual machine's node.
	Node string
	// Examples is the folder of the mission's manifests.
	Examples string
	// Image runs in every pod and in the probe.
	Image string
	Out   io.Writer
	// Plumbline is the command of that name.
	Plumbline string
	// Pictures is the folder for what is drawn.
	Pictures string
	// NVIDIA says that NVIDIA's own driver serves the GPUs.
	NVIDIA bool
	// Further is a part that runs elsewhere, after all others; nil for none.
	Further func(context.Context) (bool, error)
}

// errWrong is what a demo ends with that found something wrong. What it was has been
// printed by then.
var errWrong = errors.New("a fact contradicts a claim")

// wait is how long a pod may take to run or to go. A container start may wait
// for its NIC for a minute, and two emulated machines may share two processors
// with whatever else the host does.
const wait = 5 * time.Minute

// Run goes through the mission and prints what it finds. It leaves nothing of
// its own in the cluster.
func (d Demo) Run(ctx context.Context) error {
	report := harness.Report{Scenario: "demo", Out: d.Out}
	return report.Verdict(harness.Run(ctx, 2*wait, d.cleanUp, d.all))
}

func (d Demo) all(ctx context.Context) error {
	if err := d.startProbe(ctx); err != nil {
		return err
	}
	if err := d.standIns(ctx); err != nil {
		return err
	}
	before, err := hostState(ctx, d.Kubectl)
	if err != nil {
		return err
	}
	ok := true
	parts := []func(context.Context) (bool, error){d.permissions, d.alignment, d.Explain, d.Verify, d.DrawTopology, d.mpi, d.Azure}
	if d.NVIDIA {
		parts = slices.Insert(parts, 1, d.publishedGPU)
		parts = append(parts, d.timeSlicing)
	}
	for _, part := range parts {
		good, err := part(ctx)
		if err != nil {
			return err
		}
		ok = ok && good
	}
	good, err := d.restored(ctx, before)
	if err != nil {
		return err
	}
	if d.Further != nil {
		further, err := d.Further(ctx)
		if err != nil {
			return err
		}
		ok = ok && further
	}
	if !ok || !good {
		return errWrong
	}
	return nil
}

func (d Demo) heading(format string, args ...any) {
	fmt.Fprintf(d.Out, "\n"+format+"\n\n", args...)
}

func (d Demo) overlay(folder string) string { return filepath.Join(d.Examples, folder, "lab") }

// alignment is mission/gke-device-alignment.txt: both claims, both pods.
func (d Demo) alignment(ctx context.Context) (bool, error) {
	d.heading("The tutorial's two claims, both pods running at once")
	if _, err := d.Kubectl.Run(ctx, "apply", "-k", d.overlay("gke-device-alignment")); err != nil {
		return false, err
	}
	pods := []struct {
		pod, claim string
		expected   func(claimcheck.Observation) claimcheck.Result
	}{
		{"aligned-gpu-nic-cpu-pod", "aligned-resource-claim", claimcheck.Aligned},
		{"misaligned-gpu-nic-cpu-pod", "misaligned-resource-claim", claimcheck.Misaligned},
	}
	ok := true
	var outcomes []claimcheck.Outcome
	for _, p := range pods {
		if err := d.waitForPod(ctx, "default", p.pod); err != nil {
			return false, err
		}
	}
	for _, p := range pods {
		o, err := d.examine(ctx, "default", p.pod, p.claim)
		if err != nil {
			return false, err
		}
		o.Expected = p.expected(o.OnNode)
		ok = ok && o.OK()
		outcomes = append(outcomes, o)
		if err := claimcheck.WriteResults(d.Out, o); err != nil {
			return false, err
		}
		fmt.Fprintln(d.Out)
	}
	shared := claimcheck.Exclusive(outcomes)
	fmt.Fprintf(d.Out, "  %s  %s: %s\n\n", claimcheck.Mark(shared.OK), shared.What, shared.Why)
	return ok && shared.OK, claimcheck.WriteTable(d.Out, outcomes)
}

func (d Demo) examine(ctx context.Context, namespace, pod, claim string) (claimcheck.Outcome, error) {
	var o claimcheck.Outcome
	// The interface's status is written after the pod starts, and retried
	// until it is: wait for what users will look up.
	err := poll(ctx, func() (bool, error) {
		var err error
		o, err = examine(ctx, d.Kubectl, namespace, pod, claim)
		if err != nil {
			return false, err
		}
		return claimcheck.Status(o.Claim, o.Inside).OK, nil
	})
	if err != nil && !errors.Is(err, harness.ErrTimeout) {
		return o, err
	}
	o.FromInside = append(o.FromInside, claimcheck.Status(o.Claim, o.Inside))
	o.FromNode = append(o.FromNode, claimcheck.Status(o.Claim, o.OnNode))
	return o, nil
}

// restored compares the node's own interfaces with what they were before the
// first pod.
func (d Demo) restored(ctx context.Context, before []string) (bool, error) {
	d.heading("After the pods: the node as it was")
	if err := d.deleteMission(ctx); err != nil {
		return false, err
	}
	var v claimcheck.Result
	err := poll(ctx, func() (bool, error) {
		after, err := hostState(ctx, d.Kubectl)
		if err != nil {
			return false, err
		}
		v = claimcheck.Restored(before, after)
		return v.OK, nil
	})
	if err != nil && !errors.Is(err, harness.ErrTimeout) {
		return false, err
	}
	fmt.Fprintf(d.Out, "  %s  %s: %s\n", claimcheck.Mark(v.OK), v.What, v.Why)
	return v.OK, nil
}

// poll waits until a condition is true or fails, or the time is up.
func poll(ctx context.Context, condition func() (bool, error)) error {
	return harness.WaitFor(ctx, time.Second, wait, condition)
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
		sharers[0], sharers[1],
	},
	{"resourceclaim", "aligned-resource-claim", "misaligned-resource-claim", unschedulable, sharedClaim},
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
	return errors.Join(d.deleteMission(ctx), d.closeSimulated(ctx, false), d.stopProbe(ctx))
}

func (d Demo) delete(ctx context.Context, namespace string, objects []string) error {
	args := append([]string{"delete"}, objects...)
	_, err := d.Kubectl.Run(ctx, append(args, "-n", namespace, "--ignore-not-found", "--wait=true", "--timeout="+wait.String())...)
	return err
}
