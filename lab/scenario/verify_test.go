// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The exit code of the command is the answer; a command that does not run gives none.
func TestAnswers(t *testing.T) {
	d := Demo{Plumbline: "sh"}
	three, err := d.plumbline(t.Context(), "-c", "echo said; echo wrong >&2; exit 3")
	if want := (Answer{Out: "said\n", Complaint: "wrong", Code: 3}); err != nil || three != want {
		t.Fatalf("got %+v, %v; want %+v", three, err, want)
	}
	if want := "exit code 3: wrong"; three.Ending() != want {
		t.Errorf("got %q, want %q", three.Ending(), want)
	}
	d.Plumbline = "/does/not/exist"
	if _, err := d.plumbline(t.Context()); err == nil {
		t.Error("a command that does not run is no answer")
	}
}

// Both answers count, and the pairs that could be nearer.
func TestCheckVerifyAnswer(t *testing.T) {
	text := func(asClaimed, aligned, pairs string) string {
		return "default/x on n: Word\n\nas claimed  " + asClaimed + " (R)\naligned     " + aligned + " (R)\n\nPAIR IS ...\n" + pairs
	}
	far := "/dev/dri/card0 to main CPUs  SYS  NODE\nnet0 to main CPUs  SYS  NODE\n"
	for _, test := range []struct {
		answer Answer
		want   verifyExpectation
		ok     bool
	}{
		{Answer{Out: text("True", "True", "")}, expectAligned, true},
		{Answer{Out: text("True", "False", "")}, expectAligned, false},
		{Answer{Out: text("True", "True", ""), Code: 3}, expectAligned, false},
		{Answer{Out: "default/x on n: Aligned"}, expectAligned, false},
		{Answer{Out: text("False", "True", ""), Code: 3}, expectFlagged, true},
		{Answer{Out: text("False", "True", "")}, expectFlagged, false},
		{Answer{Out: text("True", "False", far)}, expectNotAligned, true},
		{Answer{Out: text("True", "True", far)}, expectNotAligned, false},
		{Answer{Out: text("True", "False", strings.ReplaceAll(far, "SYS  NODE", "NODE  NODE"))}, expectNotAligned, false},
	} {
		if v := checkVerifyAnswer(test.answer, test.want); v.OK != test.ok {
			t.Errorf("%+v, want %q: %+v", test.answer, test.want.what, v)
		}
	}
}

func TestHasCondition(t *testing.T) {
	claim := func(statuses ...metav1.ConditionStatus) resourceapi.ResourceClaim {
		var c resourceapi.ResourceClaim
		for _, s := range statuses {
			c.Status.Devices = append(c.Status.Devices, resourceapi.AllocatedDeviceStatus{
				Driver: "dra.net", Conditions: []metav1.Condition{{Type: "Ready", Status: "True"}, {Type: "Aligned", Status: s, Reason: "CPUsWrong"}},
			})
		}
		return c
	}
	if ok, why := hasCondition(claim("False", "False"), "Aligned", "False"); !ok || !strings.Contains(why, "CPUsWrong") {
		t.Errorf("%t, %s", ok, why)
	}
	if ok, why := hasCondition(claim("True"), "AsClaimed", "True"); ok || why == "" {
		t.Errorf("one condition is not the other: %t, %s", ok, why)
	}
	for _, c := range []resourceapi.ResourceClaim{claim(), claim("True", "False"), {}} {
		if ok, why := hasCondition(c, "Aligned", "True"); ok || why == "" {
			t.Errorf("%+v: %t, %s", c.Status.Devices, ok, why)
		}
	}
}
