// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"plumbline.dev/plumbline/lab/scenario/claimcheck"
	"plumbline.dev/plumbline/lab/scenario/harness"
)

//go:embed four-pairs.yaml
var fourPairs string

// unschedulable names the pod and the claim of four-pairs.yaml.
const unschedulable = "four-pairs"

// explainUnfit is what plumbline explain exits with where a claim fits nowhere.
const explainUnfit = 1

// Explain is the part of the tour where a claim that fits nowhere is explained.
// The scheduler confirms independently that it does not fit.
func (d Demo) Explain(ctx context.Context) (bool, error) {
	d.heading("Why not? Four GPUs and four NICs, wanted below one PCIe root")
	if _, err := d.Kubectl.RunWithInput(ctx, fourPairs, "apply", "-f", "-"); err != nil {
		return false, err
	}
	scheduler, err := d.schedulerRefuses(ctx)
	if err != nil {
		return false, err
	}
	explained, err := d.explained(ctx)
	if err != nil {
		return false, err
	}
	event, err := d.waitForEvent(ctx)
	if err != nil {
		return false, err
	}
	d.say(scheduler)
	d.say(explained)
	d.say(event)
	return scheduler.OK && explained.OK && event.OK, nil
}

// schedulerRefuses waits for the scheduler's condition on the pod.
func (d Demo) schedulerRefuses(ctx context.Context) (claimcheck.Result, error) {
	v := claimcheck.Result{What: "the scheduler cannot place the pod, and says no more than"}
	err := poll(ctx, func() (bool, error) {
		var pod corev1.Pod
		if err := d.Kubectl.Get(ctx, &pod, "pod", unschedulable, "-n", "default"); err != nil {
			return false, err
		}
		at := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
		if at < 0 {
			return false, nil
		}
		c := pod.Status.Conditions[at]
		v.OK, v.Why = c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable, c.Message
		return v.OK, nil
	})
	if errors.Is(err, harness.ErrTimeout) {
		v.Why = "it says nothing of the kind: " + v.Why
		return v, nil
	}
	return v, err
}

// explained runs the command on the pod, prints what it says, and looks for the
// constraint and a change that helps.
func (d Demo) explained(ctx context.Context) (claimcheck.Result, error) {
	said, err := d.plumbline(ctx, "explain", "pod/"+unschedulable, "-n", "default", "--node", d.Node)
	if err != nil {
		return claimcheck.Result{}, err
	}
	fmt.Fprintln(d.Out, said.Out)
	v := claimcheck.Result{What: "plumbline explain names the constraint, and changes that help", OK: said.Code == explainUnfit, Why: said.Ending()}
	for _, words := range []string{"matchAttribute resource.kubernetes.io/pcieRoot", "what helps, each tried:"} {
		if !strings.Contains(said.Out, words) {
			v.OK, v.Why = false, fmt.Sprintf("%s, without a word of %q", v.Why, words)
		}
	}
	return v, nil
}

// waitForEvent waits for the pod's event that gives the same reason.
func (d Demo) waitForEvent(ctx context.Context) (claimcheck.Result, error) {
	v := claimcheck.Result{What: "without anybody asking, the pod has an event that says why"}
	err := poll(ctx, func() (bool, error) {
		var events corev1.EventList
		if err := d.Kubectl.Get(ctx, &events, "events", "-n", "default", "--field-selector",
			"reason=ClaimsCannotBeAllocated,involvedObject.kind=Pod,involvedObject.name="+unschedulable); err != nil {
			return false, err
		}
		for _, e := range events.Items {
			v.Why = e.Message
			v.OK = strings.Contains(e.Message, "resource.kubernetes.io/pcieRoot") && strings.Contains(e.Message, "What helps: ")
		}
		return v.OK, nil
	})
	if errors.Is(err, harness.ErrTimeout) {
		if v.Why == "" {
			v.Why = "it has none"
		}
		return v, nil
	}
	return v, err
}

// DrawTopology is the end of the tour: the node and who holds what, as a picture.
func (d Demo) DrawTopology(ctx context.Context) (bool, error) {
	drawn, err := d.plumbline(ctx, "topo", "--node", d.Node, "-o", "svg")
	if err != nil {
		return false, err
	}
	path := filepath.Join(d.Pictures, d.Node+".svg")
	if err := errors.Join(os.MkdirAll(d.Pictures, 0o755), os.WriteFile(path, []byte(drawn.Out), 0o644)); err != nil {
		return false, fmt.Errorf("write the picture: %w", err)
	}
	v := claimcheck.Result{What: "a picture of the node and of who holds what", OK: drawn.Code == 0, Why: path}
	switch {
	case !v.OK:
		v.Why = drawn.Ending()
	case !strings.Contains(drawn.Out, alignedPod):
		v.OK, v.Why = false, fmt.Sprintf("%s does not show pod %s", path, alignedPod)
	}
	d.say(v)
	return v.OK, nil
}
