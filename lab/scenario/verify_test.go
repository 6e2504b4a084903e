// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestExitVerdict(t *testing.T) {
	three := exec.CommandContext(t.Context(), "sh", "-c", "exit 3").Run()
	for _, test := range []struct {
		err  error
		want int
		ok   bool
	}{{nil, verifyAligned, true}, {three, verifyMisaligned, true}, {three, verifyAligned, false}, {nil, verifyMisaligned, false}} {
		v, err := exitVerdict(test.err, test.want, "")
		if err != nil || v.OK != test.ok {
			t.Errorf("%v, want %d: %+v, %v", test.err, test.want, v, err)
		}
	}
	if _, err := exitVerdict(errors.New("not found"), verifyAligned, ""); err == nil {
		t.Error("a command that does not run is no verdict")
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
