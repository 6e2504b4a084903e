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

// The pod that is convicted, and the one that got what it claimed and is far apart:
// the tutorial's, with their claims.
const (
	suspect      = "aligned-gpu-nic-cpu-pod"
	suspectClaim = "aligned-resource-claim"
	farPod       = "misaligned-gpu-nic-cpu-pod"
	farClaim     = "misaligned-resource-claim"
)

// What plumbline verify exits with.
const (
	verifyAsClaimed  = 0
	verifyMisaligned = 3
)

// told is what verification is to say of a pod: by its exit code, by both answers
// of its text, and by the two conditions of the claim.
type told struct {
	what               string
	code               int
	asClaimed, aligned metav1.ConditionStatus
	// farther is what the text must say of the pairs that could be nearer.
	farther []string
}

var (
	proves   = told{what: "proves the pod as claimed, and aligned", code: verifyAsClaimed, asClaimed: "True", aligned: "True"}
	convicts = told{what: "convicts the pod", code: verifyMisaligned, asClaimed: "False", aligned: "True"}
	// The tutorial's own counter-example: nobody broke a promise, and the CPUs are
	// on the wrong socket.
	tellsApart = told{
		what: "calls the pod as claimed, and not aligned", code: verifyAsClaimed, asClaimed: "True", aligned: "False",
		farther: []string{"GPU", "NIC"},
	}
)

// Convict is the part of the tour where a pod is proved aligned, another one as
// claimed and not aligned; another GPU's device file is smuggled into the first, and
// it is convicted: by plumbline verify, by the conditions of its claim, and by the
// demo's own probe, which knows nothing of verify.
func (d Demo) Convict(ctx context.Context) (bool, error) {
	d.heading("Is it true? plumbline verify asks the kernel")
	if _, err := d.Kubectl.Run(ctx, "apply", "-k", d.overlay("gke-device-alignment")); err != nil {
		return false, err
	}
	for _, pod := range []string{suspect, farPod} {
		if err := d.waitForPod(ctx, "default", pod); err != nil {
			return false, err
		}
	}
	proved, err := d.verdictOf(ctx, suspect, suspectClaim, proves)
	if err != nil {
		return false, err
	}
	d.heading("What the tutorial calls misaligned: it got what it claimed")
	apart, err := d.verdictOf(ctx, farPod, farClaim, tellsApart)
	if err != nil {
		return false, err
	}
	probed, err := d.probeFindsFar(ctx)
	if err != nil {
		return false, err
	}
	convicted, err := d.smuggled(ctx)
	if err != nil {
		return false, err
	}
	ok := true
	for _, v := range append([]judge.Verdict{proved, apart, probed}, convicted...) {
		d.say(v)
		ok = ok && v.OK
	}
	return ok, nil
}

// smuggled puts another GPU's file into the suspect, asks everybody, and takes it
// out again.
func (d Demo) smuggled(ctx context.Context) ([]judge.Verdict, error) {
	d.heading("A second GPU's device file is put into the pod behind everybody's back")
	file, err := d.smuggle(ctx, "add")
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(d.Out, "  %s\n\n", strings.TrimSpace(file))
	convicted, err := d.verdictOf(ctx, suspect, suspectClaim, convicts)
	if err != nil {
		return nil, err
	}
	independent, err := d.probeConvicts(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := d.smuggle(ctx, "remove"); err != nil {
		return nil, err
	}
	acquitted, err := d.conditionsBecome(ctx, suspectClaim, proves)
	return []judge.Verdict{convicted, independent, acquitted}, err
}

// verdictOf runs the command on a pod, prints what it says, and waits for the
// claim's conditions to say the same.
func (d Demo) verdictOf(ctx context.Context, pod, claim string, want told) (judge.Verdict, error) {
	answer, err := d.plumbline(ctx, "verify", "pod/"+pod, "-n", "default")
	if err != nil {
		return judge.Verdict{}, err
	}
	fmt.Fprint(d.Out, answer.Out)
	v := verifyVerdict(answer, want)
	if !v.OK {
		return v, nil
	}
	said, err := d.conditionsBecome(ctx, claim, want)
	v.OK, v.Why = said.OK, v.Why+"; "+said.Why
	return v, err
}

// verifyVerdict judges how the command ended, and both answers of its text.
func verifyVerdict(a answer, want told) judge.Verdict {
	v := judge.Verdict{What: "plumbline verify " + want.what, OK: a.Code == want.code, Why: a.Ending()}
	for question, status := range map[string]metav1.ConditionStatus{"as claimed": want.asClaimed, "aligned": want.aligned} {
		if !answered(a.Out, question, string(status)) {
			v.OK, v.Why = false, fmt.Sprintf("%s; it does not answer %q with %s", v.Why, question, status)
		}
	}
	if far := fartherPairs(a.Out); far < len(want.farther) {
		v.OK, v.Why = false, fmt.Sprintf("%s; %d pairs are SYS where NODE was possible, want %s to the CPUs", v.Why, far, strings.Join(want.farther, " and "))
	}
	return v
}

// answered says whether a line of the text gives a question this answer.
func answered(text, question, status string) bool {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, question+" "); ok && strings.HasPrefix(strings.TrimSpace(rest), status+" (") {
			return true
		}
	}
	return false
}

// fartherPairs counts the lines of the text that call a pair with CPUs SYS where
// the machine could have given NODE.
func fartherPairs(text string) int {
	n := 0
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if last := len(fields) - 1; last > 2 && fields[last-2] == "CPUs" && fields[last-1] == "SYS" && fields[last] == "NODE" {
			n++
		}
	}
	return n
}

// conditionsBecome waits until every entry of ours in the claim's status says so.
func (d Demo) conditionsBecome(ctx context.Context, name string, want told) (judge.Verdict, error) {
	v := judge.Verdict{What: fmt.Sprintf("the claim says AsClaimed: %s, Aligned: %s", want.asClaimed, want.aligned)}
	err := poll(ctx, func() (bool, error) {
		var claim resourceapi.ResourceClaim
		if err := d.Kubectl.Get(ctx, &claim, "resourceclaim", name, "-n", "default"); err != nil {
			return false, err
		}
		kept, asClaimed := says(claim, "AsClaimed", want.asClaimed)
		near, aligned := says(claim, "Aligned", want.aligned)
		v.OK, v.Why = kept && near, asClaimed+", "+aligned
		return v.OK, nil
	})
	if errors.Is(err, await.ErrLate) {
		return v, nil
	}
	return v, err
}

// says whether all entries that have a condition say this of it.
func says(claim resourceapi.ResourceClaim, condition string, want metav1.ConditionStatus) (bool, string) {
	entries, said := 0, ""
	for _, d := range claim.Status.Devices {
		for _, c := range d.Conditions {
			if c.Type != condition {
				continue
			}
			if c.Status != want {
				return false, fmt.Sprintf("%s: %s %s %s: %s", d.Driver, condition, c.Status, c.Reason, c.Message)
			}
			entries++
			said = fmt.Sprintf("%s %s %s in the claim's status", condition, c.Status, c.Reason)
		}
	}
	if entries == 0 {
		return false, fmt.Sprintf("no entry of the claim's status says %s", condition)
	}
	return true, said
}

// probeFindsFar asks the demo's own probe of the pod that is far apart.
func (d Demo) probeFindsFar(ctx context.Context) (judge.Verdict, error) {
	v := judge.Verdict{What: "the demo's own probe finds the CPUs on the other socket, and every constraint kept"}
	o, err := examine(ctx, d.Kubectl, "default", farPod, farClaim)
	if err != nil {
		return v, err
	}
	o.Wanted = judge.Misaligned(o.OnNode)
	v.OK, v.Why = o.OK(), o.Wanted.Why
	return v, nil
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
