// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The command's exit code is the verdict; one that does not run is none.
func TestAnswers(t *testing.T) {
	d := Demo{Plumbline: "sh"}
	three, err := d.plumbline(t.Context(), "-c", "echo said; echo wrong >&2; exit 3")
	if want := (answer{Out: "said\n", Complaint: "wrong", Code: 3}); err != nil || three != want {
		t.Fatalf("got %+v, %v; want %+v", three, err, want)
	}
	if want := "exit code 3: wrong"; three.Ending() != want {
		t.Errorf("got %q, want %q", three.Ending(), want)
	}
	for _, test := range []struct {
		answer answer
		want   int
		ok     bool
	}{{answer{}, verifyAligned, true}, {three, verifyMisaligned, true}, {three, verifyAligned, false}, {answer{}, verifyMisaligned, false}} {
		if v := verifyVerdict(test.answer, test.want); v.OK != test.ok {
			t.Errorf("%+v, want %d: %+v", test.answer, test.want, v)
		}
	}
	d.Plumbline = "/does/not/exist"
	if _, err := d.plumbline(t.Context()); err == nil {
		t.Error("a command that does not run is no answer")
	}
}

func TestSaysAligned(t *testing.T) {
	claim := func(statuses ...metav1.ConditionStatus) resourceapi.ResourceClaim {
		var c resourceapi.ResourceClaim
		for _, s := range statuses {
			c.Status.Devices = append(c.Status.Devices, resourceapi.AllocatedDeviceStatus{
				Driver: "dra.net", Conditions: []metav1.Condition{{Type: "Ready", Status: "True"}, {Type: "Aligned", Status: s, Reason: "CPUsWrong"}},
			})
		}
		return c
	}
	if ok, why := saysAligned(claim("False", "False"), "False"); !ok || !strings.Contains(why, "CPUsWrong") {
		t.Errorf("%t, %s", ok, why)
	}
	for _, c := range []resourceapi.ResourceClaim{claim(), claim("True", "False"), {}} {
		if ok, why := saysAligned(c, "True"); ok || why == "" {
			t.Errorf("%+v: %t, %s", c.Status.Devices, ok, why)
		}
	}
}
