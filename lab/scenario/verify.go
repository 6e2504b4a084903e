// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/lab/scenario/claimcheck"
	"plumbline.dev/plumbline/lab/scenario/harness"
)

//go:embed stray.sh
var strayScript string

// The tutorial's two pods and their claims: one is aligned, and gets a stray device
// file; the other has what it claimed, with its CPUs on the other socket.
const (
	alignedPod   = "aligned-gpu-nic-cpu-pod"
	alignedClaim = "aligned-resource-claim"
	distantPod   = "misaligned-gpu-nic-cpu-pod"
	distantClaim = "misaligned-resource-claim"
)

// What plumbline verify exits with.
const (
	verifyAsClaimed  = 0
	verifyMisaligned = 3
)

// verifyExpectation is what verification is to report of a pod: by its exit code, by
// both answers of its text, and by the two conditions of the claim.
type verifyExpectation struct {
	what               string
	code               int
	asClaimed, aligned metav1.ConditionStatus
	// farther is what the text must say of the pairs that could be nearer.
	farther []string
}

var (
	expectAligned = verifyExpectation{what: "reports the pod as claimed and aligned", code: verifyAsClaimed, asClaimed: "True", aligned: "True"}
	expectFlagged = verifyExpectation{what: "flags the pod as misaligned", code: verifyMisaligned, asClaimed: "False", aligned: "True"}
	// The tutorial's own counter-example: the pod has what it claimed, and the CPUs
	// are on the wrong socket.
	expectNotAligned = verifyExpectation{
		what: "reports the pod as claimed and not aligned", code: verifyAsClaimed, asClaimed: "True", aligned: "False",
		farther: []string{"GPU", "NIC"},
	}
)

// Verify is the part of the tour where one pod is reported as claimed and aligned,
// another as claimed and not aligned. Then another GPU's device file is added to the
// first, which must be flagged: by plumbline verify, by the conditions of its claim, and
// by the demo's own probe, which is independent of verify.
func (d Demo) Verify(ctx context.Context) (bool, error) {
	d.heading("Is it true? plumbline verify asks the kernel")
	if _, err := d.Kubectl.Run(ctx, "apply", "-k", d.overlay("gke-device-alignment")); err != nil {
		return false, err
	}
	for _, pod := range []string{alignedPod, distantPod} {
		if err := d.waitForPod(ctx, "default", pod); err != nil {
			return false, err
		}
	}
	aligned, err := d.verifyPod(ctx, alignedPod, alignedClaim, expectAligned)
	if err != nil {
		return false, err
	}
	d.heading("What the tutorial calls misaligned: it got what it claimed")
	distant, err := d.verifyPod(ctx, distantPod, distantClaim, expectNotAligned)
	if err != nil {
		return false, err
	}
	probed, err := d.probeFindsDistant(ctx)
	if err != nil {
		return false, err
	}
	flagged, err := d.addStrayDevice(ctx)
	if err != nil {
		return false, err
	}
	ok := true
	for _, v := range append([]claimcheck.Result{aligned, distant, probed}, flagged...) {
		d.say(v)
		ok = ok && v.OK
	}
	return ok, nil
}

// addStrayDevice adds another GPU's device file to the aligned pod, checks that the
// pod is flagged, and removes the file again.
func (d Demo) addStrayDevice(ctx context.Context) ([]claimcheck.Result, error) {
	d.heading("A second GPU's device files are added to the pod from the node")
	file, err := d.strayDevice(ctx, "add")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(file) {
		fmt.Fprintf(d.Out, "  %s\n", strings.TrimSpace(line))
	}
	fmt.Fprintln(d.Out)
	flagged, err := d.verifyPod(ctx, alignedPod, alignedClaim, expectFlagged)
	if err != nil {
		return nil, err
	}
	independent, err := d.probeFindsStrayDevice(ctx, planted(file))
	if err != nil {
		return nil, err
	}
	if _, err := d.strayDevice(ctx, "remove"); err != nil {
		return nil, err
	}
	cleared, err := d.waitForConditions(ctx, alignedClaim, expectAligned)
	return []claimcheck.Result{flagged, independent, cleared}, err
}

// verifyPod runs the command on a pod, prints what it says, and waits for the
// claim's conditions to say the same.
func (d Demo) verifyPod(ctx context.Context, pod, claim string, want verifyExpectation) (claimcheck.Result, error) {
	answer, err := d.cli().Verify(ctx, "default", pod)
	if err != nil {
		return claimcheck.Result{}, err
	}
	fmt.Fprint(d.Out, answer.Out)
	v := checkVerifyAnswer(answer, want)
	if !v.OK {
		return v, nil
	}
	said, err := d.waitForConditions(ctx, claim, want)
	v.OK, v.Why = said.OK, v.Why+"; "+said.Why
	return v, err
}

// checkVerifyAnswer checks how the command ended, and both answers of its text.
func checkVerifyAnswer(a Answer, want verifyExpectation) claimcheck.Result {
	v := claimcheck.Result{What: "plumbline verify " + want.what, OK: a.Code == want.code, Why: a.Ending()}
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

// waitForConditions waits until every entry of ours in the claim's status says so.
func (d Demo) waitForConditions(ctx context.Context, name string, want verifyExpectation) (claimcheck.Result, error) {
	v := claimcheck.Result{What: fmt.Sprintf("the claim says AsClaimed: %s, Aligned: %s", want.asClaimed, want.aligned)}
	err := poll(ctx, func() (bool, error) {
		var claim resourceapi.ResourceClaim
		if err := d.Kubectl.Get(ctx, &claim, "resourceclaim", name, "-n", "default"); err != nil {
			return false, err
		}
		kept, asClaimed := hasCondition(claim, "AsClaimed", want.asClaimed)
		near, aligned := hasCondition(claim, "Aligned", want.aligned)
		v.OK, v.Why = kept && near, asClaimed+", "+aligned
		return v.OK, nil
	})
	if errors.Is(err, harness.ErrTimeout) {
		return v, nil
	}
	return v, err
}

// hasCondition says whether all entries that have a condition say this of it.
func hasCondition(claim resourceapi.ResourceClaim, condition string, want metav1.ConditionStatus) (bool, string) {
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

// probeFindsDistant asks the demo's own probe of the distant pod.
func (d Demo) probeFindsDistant(ctx context.Context) (claimcheck.Result, error) {
	v := claimcheck.Result{What: "the demo's own probe finds the CPUs on the other socket, and every constraint kept"}
	o, err := examine(ctx, d.Kubectl, "default", distantPod, distantClaim)
	if err != nil {
		return v, err
	}
	o.Expected = claimcheck.Misaligned(o.OnNode)
	v.OK, v.Why = o.OK(), o.Expected.Why
	return v, nil
}

// strayDevice adds or removes another GPU's device file in the aligned pod's
// container, which takes root on the node.
func (d Demo) strayDevice(ctx context.Context, what string) (string, error) {
	var pod corev1.Pod
	if err := d.Kubectl.Get(ctx, &pod, "pod", alignedPod, "-n", "default"); err != nil {
		return "", err
	}
	if len(pod.Status.ContainerStatuses) == 0 {
		return "", fmt.Errorf("pod %s has no container", alignedPod)
	}
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	pid, err := d.Kubectl.Shell(ctx, probeNamespace, probePod, onNodeScript, id)
	if err != nil {
		return "", fmt.Errorf("find the process of pod %s: %w", alignedPod, err)
	}
	out, err := d.Kubectl.Shell(ctx, probeNamespace, probePod, strayScript, strings.TrimSpace(pid), what)
	if err != nil {
		return "", fmt.Errorf("%s a device file in pod %s: %w", what, alignedPod, err)
	}
	return out, nil
}

// planted are the device files that the script says it made.
func planted(said string) []string {
	var paths []string
	for line := range strings.Lines(said) {
		if made, ok := strings.CutPrefix(line, "mknod "); ok {
			path, _, _ := strings.Cut(made, " ")
			paths = append(paths, path)
		}
	}
	return paths
}

// probeFindsStrayDevice runs the demo's own probe, which is to name each file.
func (d Demo) probeFindsStrayDevice(ctx context.Context, files []string) (claimcheck.Result, error) {
	v := claimcheck.Result{What: "the demo's own probe finds the same"}
	o, err := examine(ctx, d.Kubectl, "default", alignedPod, alignedClaim)
	if err != nil {
		return v, err
	}
	for _, f := range o.FromNode {
		if f.What == "no other GPU" && !f.OK {
			v.OK, v.Why = len(files) > 0, f.Why
		}
	}
	if v.Why == "" {
		v.Why = fmt.Sprintf("it finds nothing wrong with the devices of %s", slicecodec.DriverGPU)
	}
	for _, file := range files {
		if v.OK && !slices.Contains(strings.Fields(v.Why), file) {
			v.OK, v.Why = false, fmt.Sprintf("%s; %s is not named", v.Why, file)
		}
	}
	return v, nil
}
