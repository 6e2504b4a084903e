// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/lab/scenario/await"
	"plumbline.dev/plumbline/lab/scenario/judge"
)

//go:embed stray.sh
var strayScript string

// The pod that is convicted, and its claim: the tutorial's aligned ones.
const (
	suspect      = "aligned-gpu-nic-cpu-pod"
	suspectClaim = "aligned-resource-claim"
)

// What plumbline verify exits with.
const (
	verifyAligned    = 0
	verifyMisaligned = 3
)

// Convict is the part of the tour where a pod is proved aligned, another GPU's
// device file is smuggled into it, and it is convicted: by plumbline verify, by
// the condition of its claim, and by the demo's own probe, which knows nothing of
// verify.
func (d Demo) Convict(ctx context.Context) (bool, error) {
	d.heading("Is it true? plumbline verify asks the kernel")
	if _, err := d.Kubectl.Run(ctx, "apply", "-k", d.overlay("gke-device-alignment")); err != nil {
		return false, err
	}
	if err := d.waitForPod(ctx, "default", suspect); err != nil {
		return false, err
	}
	proved, err := d.verdictOf(ctx, verifyAligned, metav1.ConditionTrue)
	if err != nil {
		return false, err
	}
	d.heading("A second GPU's device file is put into the pod behind everybody's back")
	file, err := d.smuggle(ctx, "add")
	if err != nil {
		return false, err
	}
	fmt.Fprintf(d.Out, "  %s\n\n", strings.TrimSpace(file))
	convicted, err := d.verdictOf(ctx, verifyMisaligned, metav1.ConditionFalse)
	if err != nil {
		return false, err
	}
	independent, err := d.probeConvicts(ctx)
	if err != nil {
		return false, err
	}
	if _, err := d.smuggle(ctx, "remove"); err != nil {
		return false, err
	}
	acquitted, err := d.conditionBecomes(ctx, metav1.ConditionTrue)
	if err != nil {
		return false, err
	}
	ok := true
	for _, v := range []judge.Verdict{proved, convicted, independent, acquitted} {
		d.say(v)
		ok = ok && v.OK
	}
	return ok, nil
}

// verdictOf runs the command on the suspect, prints what it says, and waits for
// the claim's condition to say the same.
func (d Demo) verdictOf(ctx context.Context, want int, condition metav1.ConditionStatus) (judge.Verdict, error) {
	answer, err := d.plumbline(ctx, "verify", "pod/"+suspect, "-n", "default")
	if err != nil {
		return judge.Verdict{}, err
	}
	fmt.Fprint(d.Out, answer.Out)
	v := verifyVerdict(answer, want)
	if !v.OK {
		return v, nil
	}
	said, err := d.conditionBecomes(ctx, condition)
	v.OK, v.Why = said.OK, v.Why+"; "+said.Why
	return v, err
}

// verifyVerdict judges how the command ended.
func verifyVerdict(a answer, want int) judge.Verdict {
	words := map[int]string{verifyAligned: "proves the pod aligned", verifyMisaligned: "convicts the pod"}
	return judge.Verdict{What: "plumbline verify " + words[want], OK: a.Code == want, Why: a.Ending()}
}

// conditionBecomes waits until every entry of ours in the claim's status says so.
func (d Demo) conditionBecomes(ctx context.Context, want metav1.ConditionStatus) (judge.Verdict, error) {
	v := judge.Verdict{What: fmt.Sprintf("the claim says Aligned: %s", want)}
	err := poll(ctx, func() (bool, error) {
		var claim resourceapi.ResourceClaim
		if err := d.Kubectl.Get(ctx, &claim, "resourceclaim", suspectClaim, "-n", "default"); err != nil {
			return false, err
		}
		v.OK, v.Why = saysAligned(claim, want)
		return v.OK, nil
	})
	if errors.Is(err, await.ErrLate) {
		return v, nil
	}
	return v, err
}

func saysAligned(claim resourceapi.ResourceClaim, want metav1.ConditionStatus) (bool, string) {
	entries, said := 0, ""
	for _, d := range claim.Status.Devices {
		for _, c := range d.Conditions {
			if c.Type != "Aligned" {
				continue
			}
			if c.Status != want {
				return false, fmt.Sprintf("%s: Aligned %s %s: %s", d.Driver, c.Status, c.Reason, c.Message)
			}
			entries++
			said = fmt.Sprintf("Aligned %s %s in the claim's status", c.Status, c.Reason)
		}
	}
	if entries == 0 {
		return false, "no entry of the claim's status says anything"
	}
	return true, said
}

// smuggle adds or removes another GPU's device file in the suspect's container,
// as only who owns the node can.
func (d Demo) smuggle(ctx context.Context, what string) (string, error) {
	var pod corev1.Pod
	if err := d.Kubectl.Get(ctx, &pod, "pod", suspect, "-n", "default"); err != nil {
		return "", err
	}
	if len(pod.Status.ContainerStatuses) == 0 {
		return "", fmt.Errorf("pod %s has no container", suspect)
	}
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	pid, err := d.Kubectl.Shell(ctx, probeNamespace, probePod, onNodeScript, id)
	if err != nil {
		return "", fmt.Errorf("find the process of pod %s: %w", suspect, err)
	}
	out, err := d.Kubectl.Shell(ctx, probeNamespace, probePod, strayScript, strings.TrimSpace(pid), what)
	if err != nil {
		return "", fmt.Errorf("%s a device file in pod %s: %w", what, suspect, err)
	}
	return out, nil
}

// probeConvicts asks the demo's own probe.
func (d Demo) probeConvicts(ctx context.Context) (judge.Verdict, error) {
	v := judge.Verdict{What: "the demo's own probe finds the same"}
	o, err := examine(ctx, d.Kubectl, "default", suspect, suspectClaim)
	if err != nil {
		return v, err
	}
	for _, f := range o.FromNode {
		if f.What == "no other GPU" && !f.OK {
			v.OK, v.Why = true, f.Why
		}
	}
	if !v.OK {
		v.Why = fmt.Sprintf("it finds nothing wrong with the devices of %s", slicecodec.DriverGPU)
	}
	return v, nil
}
